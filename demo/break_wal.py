"""Overwrites bytes in a closed WAL that is queued in the running demo. --undo puts them back."""

from demo.control import fault_command

if __name__ == "__main__":
    fault_command("break_wal", __doc__)()
