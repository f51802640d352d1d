"""Kills (-9) the running demo's peer cluster, and writes to the source meanwhile. --undo starts the peer cluster again, with its
data."""

from demo.control import fault_command

if __name__ == "__main__":
    fault_command("stop_peer_cluster", __doc__)()
