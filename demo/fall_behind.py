"""Writes to the running demo's source much faster than the peer may ship. --undo stops that, and lets the peer ship freely."""

from demo.control import fault_command

if __name__ == "__main__":
    fault_command("fall_behind", __doc__)()
