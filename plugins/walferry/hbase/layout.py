"""Builds the paths of HBase's znodes and of Walferry's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

LOCK = "lock"
PEERS_LEVEL = "peers"
PEER_STATE = "peer-state"
TABLE_CFS = "tableCFs"
SYNC_STATES = ("sync-rep-state", "new-sync-rep-state")  # of synchronous replication, written by HBase 3 for every peer


class QueueLayout(StrEnum):
    """The layouts of a cluster's queues, which decide how queues are claimed.

    HBASE2          rs/<server>/<queue>/<wal>           one multi moves a queue, without a lock (2.x, and 1.x with multi)
    CLASSIC         rs/<server>/<queue>/<wal>           copied, then deleted, under rs/<server>/lock (0.98 to 1.x without multi)
    CLASSIC_PEERS   rs/<server>/peers/<queue>/<wal>     the same in the oldest releases
    TABLE           table hbase:replication             HBase claims queues by itself (3.x, see hbase/queue_table.py)
    """

    HBASE2 = "2.x"
    CLASSIC = "classic"
    CLASSIC_PEERS = "classic-peers"
    TABLE = "3.x"


@dataclass(frozen=True)
class _Below:
    """A znode at a fixed place below each cluster's parent."""

    name: str

    def __get__(self, nodes: ZNodes, _: object) -> str:
        return f"{nodes.base}/{self.name}"


@dataclass(frozen=True)
class _Each:
    """A znode for each name, at a fixed place below each cluster's parent. The name stands for {}."""

    place: str

    def __get__(self, nodes: ZNodes, _: object) -> Callable[[str], str]:
        return lambda name: f"{nodes.base}/{self.place.format(name)}"


@dataclass(frozen=True)
class ZNodes:
    """Paths below one cluster's `zookeeper.znode.parent`, with HBase's default names (ZNodePaths.java)."""

    base: str = "/hbase"
    layout: QueueLayout = QueueLayout.HBASE2

    hbaseid = _Below("hbaseid")
    master = _Below("master")
    backup_masters = _Below("backup-masters")  # parent of one ephemeral for each HMaster that waits to become active
    running = _Below("running")  # exists while the cluster is up: without it, RegionServers stop
    meta_server = _Below("meta-region-server")  # names the server of hbase:meta; missing while no server has it
    rs = _Below("rs")  # parent of one ephemeral for each live RegionServer
    draining = _Below("draining")  # parent of one for each RegionServer that must not get regions: operators are about to stop it
    peers = _Below("replication/peers")
    queues = _Below("replication/rs")  # parent of one for each server with queues; its cversion is HBase's optimistic lock
    in_transition = _Below("region-in-transition")  # parent of one for each region in transition; HBase 1 only
    tables = _Below("table")  # parent of one for each table ever enabled or disabled, with its state; HBase 1 only
    rights = _Below("acl")  # parent of one for each table with rights; only the AccessController creates it
    split_tasks = _Below("splitWAL")  # parent of one task for each dead server's WAL that a live server must split; HBase 1 only
    visibility_labels = _Below("visibility/labels")  # labels and their ordinals; only the VisibilityController creates it

    peer = _Each("replication/peers/{}")
    peer_state = _Each(f"replication/peers/{{}}/{PEER_STATE}")
    peer_table_cfs = _Each(f"replication/peers/{{}}/{TABLE_CFS}")  # as text, for HBase 0.98 to 1.3; newer releases do not read it
    hfile_refs = _Each("replication/hfile-refs/{}")  # parent of one for each bulk-loaded HFile, which HBase keeps for the peer
    queue_server = _Each("replication/rs/{}")  # contains all of a server's queues, and the lock
    lock = _Each(f"replication/rs/{{}}/{LOCK}")
    region_in_transition = _Each("region-in-transition/{}")
    table = _Each("table/{}")

    def clients_read(self, path: str) -> bool:
        """Return whether HBase lets clients without a login read a znode (ZNodePaths.isClientReadable)."""
        known = (self.base, self.meta_server, self.master, self.hbaseid, self.rs, self.tables)
        return path in known or path.startswith(f"{self.tables}/")

    @property
    def locked(self) -> bool:
        """Whether a claimer creates the znode `lock` among a server's queues. HBase 2.x would mistake that name for a queue."""
        return self.layout in (QueueLayout.CLASSIC, QueueLayout.CLASSIC_PEERS)

    @property
    def in_table(self) -> bool:
        """Whether the queues are in a table, and not in ZooKeeper."""
        return self.layout is QueueLayout.TABLE

    def server_queues(self, server: str) -> str:
        """Return the parent of a server's queues."""
        level = f"/{PEERS_LEVEL}" if self.layout is QueueLayout.CLASSIC_PEERS else ""
        return f"{self.queues}/{server}{level}"

    def is_queue(self, name: str) -> bool:
        """Return whether a child of `server_queues` is a queue."""
        return not (self.locked and name == LOCK)

    def queue(self, server: str, queue_id: str) -> str:
        return f"{self.server_queues(server)}/{queue_id}"

    def wal(self, server: str, queue_id: str, wal: str) -> str:
        return f"{self.server_queues(server)}/{queue_id}/{wal}"

    def last_pushed_id(self, encoded_region: str, peer_id: str) -> str:
        """Return the znode of the last sequence id of a region that was shipped to a serial peer.

        Source: ZKReplicationQueueStorage.getSerialReplicationRegionPeerNode (branch-2.6).
        """
        first, second, rest = encoded_region[:2], encoded_region[2:4], encoded_region[4:]
        return f"{self.base}/replication/regions/{first}/{second}/{rest}-{peer_id}"

    def place(self, queue: str) -> tuple[str, str]:
        """Return the server and queue id of a queue's znode: the inverse of `queue`."""
        parts = queue.removeprefix(f"{self.queues}/").split("/")
        return parts[0], parts[-1]


def quoted(name: str) -> str:
    """Percent-encode any text as one znode name, which contains no "/" and is never empty, "." or ".."."""
    text = quote(name, safe=",=:@+") or "%"
    return text.replace(".", "%2E") if text in (".", "..") else text


@dataclass(frozen=True)
class _Own:
    """Walferry's own znodes of one kind, one for each name at a source cluster. The name is a peer's id or as commented."""

    kind: str

    def __get__(self, own: OwnZNodes, _: object) -> Callable[[str], str]:
        return lambda name: f"{own.root}/{self.kind}/{quoted(own.cluster.base)}/{quoted(name)}"


@dataclass(frozen=True)
class OwnZNodes:
    """Paths below Walferry's own root for one source cluster. They contain its parent: an ensemble may serve several clusters."""

    root: str
    cluster: ZNodes

    claim = _Own("claims")  # of a server: the lock of the run that claims a dead server's queues
    history = _Own("history")  # the state of the peer's replication during the last day
    runs = _Own("runs")  # parent of the summaries of runs that have shipped the peer
    leases = _Own("leases")  # parent of the leases on the peer's WAL groups
    peer_lock = _Own("peer-locks")  # the lock under which one run at a time ships all queues of a peer
    peer_state = _Own("peer-states")  # of a peer in files: the period of being DISABLED that was seen last
    row_shipments = _Own("row-shipments")  # parent of the fenced locks of tasks that ship rows of scans to the peer cluster
    shipping = _Own("shipping")  # parent of one ephemeral for each group being shipped now, if the peer has a bandwidth
    given_up = _Own("given-up")  # the broken WALs of the peer whose rest a person has given up
    archiving = _Own("archiving")  # of a WAL: the right to copy it to the archive
    initial_snapshot = _Own("initial-snapshots")  # the state of the peer's initial snapshot
    loads = _Own("loads")  # parent of the records of file loads into the peer cluster
    elsewhere = _Own("elsewhere")  # a cluster key of a peer without a peer cluster leads here: HBase wants one, and finds an id
    lake_copies = _Own("lake-copies")  # parent of what tables of the peer's lake have of their first copies
    waiting = _Own("waiting")  # an ephemeral of the task that waits for a job whose driver runs on another machine
    verification = _Own("verifications")  # the result of the peer's newest comparison
    _cursors = _Own("cursors")
    _regions = _Own("regions")  # for a part of a master's work

    def lease(self, peer_id: str, group: str) -> str:
        return f"{self.leases(peer_id)}/{quoted(group)}"

    def cursor(self, peer_id: str, key: str) -> str:
        return f"{self._cursors(peer_id)}/{quoted(key)}"

    def loading(self, peer_id: str, run_id: str) -> str:
        """Return the ephemeral znode with the progress of a run that loads files."""
        return f"{self.root}/loading/{quoted(f'{self.cluster.base}/{peer_id}/{run_id}')}"

    @property
    def rolls(self) -> str:
        """What batches know of the servers' last rolls."""
        return f"{self.root}/rolls/{quoted(self.cluster.base)}"

    @property
    def master_role(self) -> str:
        """The lock of the run that acts as the cluster's master."""
        return self._regions("role")

    @property
    def region_plans(self) -> str:
        """Parent of one plan for each region with a planned destination."""
        return self._regions("plans")

    def region_plan(self, encoded_name: str) -> str:
        return f"{self.region_plans}/{quoted(encoded_name)}"
