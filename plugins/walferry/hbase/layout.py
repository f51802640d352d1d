"""The paths of HBase's znodes and of Walferry's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

LOCK = "lock"
PEERS_LEVEL = "peers"
PEER_STATE = "peer-state"
TABLE_CFS = "tableCFs"


class QueueLayout(StrEnum):
    """How a cluster keeps its queues, and so how they are claimed.

    HBASE2          rs/<server>/<queue>/<wal>           one multi moves a queue, without a lock (2.x, and 1.x with multi)
    CLASSIC         rs/<server>/<queue>/<wal>           copied, then deleted, under rs/<server>/lock (0.98 to 1.x without multi)
    CLASSIC_PEERS   rs/<server>/peers/<queue>/<wal>     the same in the oldest releases
    """

    HBASE2 = "2.x"
    CLASSIC = "classic"
    CLASSIC_PEERS = "classic-peers"


@dataclass(frozen=True)
class _Below:
    """A znode that lies at one place below the parent of each cluster."""

    name: str

    def __get__(self, nodes: ZNodes, _: object) -> str:
        return f"{nodes.base}/{self.name}"


@dataclass(frozen=True)
class ZNodes:
    """Paths below one cluster's `zookeeper.znode.parent`, with HBase's default names (ZNodePaths.java)."""

    base: str = "/hbase"
    layout: QueueLayout = QueueLayout.HBASE2

    hbaseid = _Below("hbaseid")
    master = _Below("master")
    running = _Below("running")  # says that the cluster is up: without it, RegionServers stop
    meta_server = _Below("meta-region-server")  # says which server has hbase:meta; it is not there while none has it
    rs = _Below("rs")  # parent of one ephemeral per live RegionServer
    draining = _Below("draining")  # parent of one per RegionServer that is to get no regions: operators are about to stop it
    peers = _Below("replication/peers")
    queues = _Below("replication/rs")  # parent of one per server that has queues; its cversion is HBase's optimistic lock on them
    in_transition = _Below("region-in-transition")  # parent of one for each region in transition; HBase 1 only
    tables = _Below("table")  # parent of one for each table ever enabled or disabled, with its state; HBase 1 only
    split_tasks = _Below("splitWAL")  # parent of one task for each WAL of a dead server that a live one is to split; HBase 1 only
    visibility_labels = _Below("visibility/labels")  # and their ordinals; only the VisibilityController creates it

    def peer(self, peer_id: str) -> str:
        return f"{self.peers}/{peer_id}"

    def peer_state(self, peer_id: str) -> str:
        return f"{self.peers}/{peer_id}/{PEER_STATE}"

    def peer_table_cfs(self, peer_id: str) -> str:
        """The peer's tables as text; HBase 0.98 to 1.3 only. Newer releases leave it there and do not read it."""
        return f"{self.peers}/{peer_id}/{TABLE_CFS}"

    def hfile_refs(self, peer_id: str) -> str:
        """Parent of one znode for each bulk-loaded HFile that the peer does not have yet. HBase keeps these files."""
        return f"{self.base}/replication/hfile-refs/{peer_id}"

    def region_in_transition(self, encoded_name: str) -> str:
        return f"{self.in_transition}/{encoded_name}"

    def table(self, name: str) -> str:
        return f"{self.tables}/{name}"

    def clients_read(self, path: str) -> bool:
        """Whether HBase lets clients without a login read a znode (ZNodePaths.isClientReadable)."""
        known = (self.base, self.meta_server, self.master, self.hbaseid, self.rs, self.tables)
        return path in known or path.startswith(f"{self.tables}/")

    @property
    def locked(self) -> bool:
        """Whether a claimer creates the znode `lock` among a server's queues. HBase 2.x would take that name for a queue."""
        return self.layout is not QueueLayout.HBASE2

    def queue_server(self, server: str) -> str:
        """The znode that holds all of a server's queues, and the lock."""
        return f"{self.queues}/{server}"

    def lock(self, server: str) -> str:
        return f"{self.queues}/{server}/{LOCK}"

    def server_queues(self, server: str) -> str:
        """Parent of a server's queues."""
        level = f"/{PEERS_LEVEL}" if self.layout is QueueLayout.CLASSIC_PEERS else ""
        return f"{self.queues}/{server}{level}"

    def is_queue(self, name: str) -> bool:
        """Whether a child of `server_queues` is a queue."""
        return not (self.locked and name == LOCK)

    def queue(self, server: str, queue_id: str) -> str:
        return f"{self.server_queues(server)}/{queue_id}"

    def wal(self, server: str, queue_id: str, wal: str) -> str:
        return f"{self.server_queues(server)}/{queue_id}/{wal}"

    def place(self, queue: str) -> tuple[str, str]:
        """Server and queue id of a queue's znode: the inverse of `queue`."""
        parts = queue.removeprefix(f"{self.queues}/").split("/")
        return parts[0], parts[-1]


def quoted(name: str) -> str:
    """Percent-encode any text as one znode name, which has no "/" and is never empty, "." or ".."."""
    text = quote(name, safe=",=:@+") or "%"
    return text.replace(".", "%2E") if text in (".", "..") else text


@dataclass(frozen=True)
class _Own:
    """A znode of Walferry's own for each name of one kind at a source cluster: a peer's id, or what the comment says."""

    kind: str

    def __get__(self, own: OwnZNodes, _: object) -> Callable[[str], str]:
        return lambda name: f"{own.root}/{self.kind}/{quoted(own.cluster.base)}/{quoted(name)}"


@dataclass(frozen=True)
class OwnZNodes:
    """Paths below Walferry's own root for one source cluster. They contain its parent, as one ensemble may serve several."""

    root: str
    cluster: ZNodes

    claim = _Own("claims")  # of a server: the lock of the run that claims a dead server's queues
    history = _Own("history")  # how the peer's replication stood in the last day
    runs = _Own("runs")  # parent of what is kept of the runs that have shipped the peer
    leases = _Own("leases")  # parent of the leases on the peer's WAL groups
    peer_lock = _Own("peer-locks")  # the lock under which one run at a time ships all queues of a peer
    row_shipments = _Own("row-shipments")  # parent of the holds of tasks that ship rows of scans to the peer's slave
    shipping = _Own("shipping")  # parent of one ephemeral for each group that is shipped now, if the peer has a bandwidth
    archiving = _Own("archiving")  # of a WAL: the right to copy it to the archive
    initial_snapshot = _Own("initial-snapshots")  # what is known of the peer's initial snapshot
    loads = _Own("loads")  # parent of what is known of loads of files into the peer's slave
    _marks = _Own("marks")
    _regions = _Own("regions")  # of a part of what a master does

    def lease(self, peer_id: str, group: str) -> str:
        return f"{self.leases(peer_id)}/{quoted(group)}"

    def mark(self, peer_id: str, key: str) -> str:
        return f"{self._marks(peer_id)}/{quoted(key)}"

    def loading(self, peer_id: str, run_id: str) -> str:
        """An ephemeral znode that says how far a run is that loads files."""
        return f"{self.root}/loading/{quoted(f'{self.cluster.base}/{peer_id}/{run_id}')}"

    @property
    def master_role(self) -> str:
        """The lock of the run that acts as the cluster's master."""
        return self._regions("role")

    @property
    def region_plans(self) -> str:
        """Parent of one plan for each region that is to go somewhere."""
        return self._regions("plans")

    def region_plan(self, encoded_name: str) -> str:
        return f"{self.region_plans}/{quoted(encoded_name)}"
