"""Where HBase 2.x keeps things in ZooKeeper, and where Walferry keeps its own."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class ZNodes:
    """Paths below one cluster's `zookeeper.znode.parent`, with HBase's default names (ZNodePaths.java)."""

    base: str = "/hbase"

    @property
    def hbaseid(self) -> str:
        return f"{self.base}/hbaseid"

    @property
    def master(self) -> str:
        return f"{self.base}/master"

    @property
    def rs(self) -> str:
        """Parent of one ephemeral per live RegionServer."""
        return f"{self.base}/rs"

    @property
    def peers(self) -> str:
        return f"{self.base}/replication/peers"

    def peer(self, peer_id: str) -> str:
        return f"{self.peers}/{peer_id}"

    def peer_state(self, peer_id: str) -> str:
        return f"{self.peers}/{peer_id}/peer-state"

    @property
    def queues(self) -> str:
        """Parent of one znode per server that has queues; its cversion is HBase's optimistic lock on where WALs are queued."""
        return f"{self.base}/replication/rs"

    def server_queues(self, server: str) -> str:
        return f"{self.queues}/{server}"

    def queue(self, server: str, queue_id: str) -> str:
        return f"{self.queues}/{server}/{queue_id}"

    def wal(self, server: str, queue_id: str, wal: str) -> str:
        return f"{self.queues}/{server}/{queue_id}/{wal}"


def quoted(name: str) -> str:
    """Any text as one znode name: percent-encoded, "/" too, and never empty, "." or ".."."""
    text = quote(name, safe=",=:@+") or "%"
    return text.replace(".", "%2E") if text in (".", "..") else text


@dataclass(frozen=True)
class OwnZNodes:
    """Paths below Walferry's own root, for one source cluster (the ensemble may serve several, so its parent is part of them)."""

    root: str
    cluster: ZNodes

    def lease(self, peer_id: str, group: str) -> str:
        return f"{self.root}/leases/{quoted(self.cluster.base)}/{quoted(peer_id)}/{quoted(group)}"

    def mark(self, peer_id: str, key: str) -> str:
        return f"{self.root}/marks/{quoted(self.cluster.base)}/{quoted(peer_id)}/{quoted(key)}"
