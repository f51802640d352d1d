"""Drops a table at the running demo's peer cluster whose edits are queued. --undo makes it again."""

from demo.control import fault_command

if __name__ == "__main__":
    fault_command("drop_table", __doc__)()
