"""Sets the position of a queued WAL of the running demo beyond the file's end. --undo sets it to 0."""

from demo.control import fault_command

if __name__ == "__main__":
    fault_command("spoil_position", __doc__)()
