"""Kills (-9) a RegionServer of the running demo's source, which leaves edits that are not shipped. --undo adds another one."""

from demo.control import fault_command

if __name__ == "__main__":
    fault_command("kill_server", __doc__)()
