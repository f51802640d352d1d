"""Adds a DISABLED peer to the running demo that nobody ships, so that its WALs stay in oldWALs. --undo removes it."""

from demo.control import fault_command

if __name__ == "__main__":
    fault_command("forget_peer", __doc__)()
