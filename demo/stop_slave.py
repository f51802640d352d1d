"""Kills (-9) the running demo's slave, and writes to the source meanwhile. --undo starts the slave again, with its data."""

from demo.control import fault_command

if __name__ == "__main__":
    fault_command("stop_slave", __doc__)()
