"""The paths of HBase's znodes and of Walferry's own."""

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
class ZNodes:
    """Paths below one cluster's `zookeeper.znode.parent`, with HBase's default names (ZNodePaths.java)."""

    base: str = "/hbase"
    layout: QueueLayout = QueueLayout.HBASE2

    @property
    def hbaseid(self) -> str:
        return f"{self.base}/hbaseid"

    @property
    def master(self) -> str:
        return f"{self.base}/master"

    @property
    def running(self) -> str:
        """Says that the cluster is up. Without it, RegionServers stop."""
        return f"{self.base}/running"

    @property
    def meta_server(self) -> str:
        """Says which server has hbase:meta. It is not there while none has it."""
        return f"{self.base}/meta-region-server"

    @property
    def rs(self) -> str:
        """Parent of one ephemeral per live RegionServer."""
        return f"{self.base}/rs"

    @property
    def draining(self) -> str:
        """Parent of one znode per RegionServer that is to get no regions, because operators are about to stop it."""
        return f"{self.base}/draining"

    @property
    def peers(self) -> str:
        return f"{self.base}/replication/peers"

    def peer(self, peer_id: str) -> str:
        return f"{self.peers}/{peer_id}"

    def peer_state(self, peer_id: str) -> str:
        return f"{self.peers}/{peer_id}/{PEER_STATE}"

    def peer_table_cfs(self, peer_id: str) -> str:
        """The peer's tables as text; HBase 0.98 to 1.3 only. Newer releases leave it there and do not read it."""
        return f"{self.peers}/{peer_id}/{TABLE_CFS}"

    @property
    def queues(self) -> str:
        """Parent of one znode per server that has queues; HBase's optimistic lock on the queues is its cversion."""
        return f"{self.base}/replication/rs"

    def hfile_refs(self, peer_id: str) -> str:
        """Parent of one znode for each bulk-loaded HFile that the peer does not have yet. HBase keeps these files."""
        return f"{self.base}/replication/hfile-refs/{peer_id}"

    @property
    def in_transition(self) -> str:
        """Parent of one znode for each region in transition; HBase 1 only."""
        return f"{self.base}/region-in-transition"

    def region_in_transition(self, encoded_name: str) -> str:
        return f"{self.in_transition}/{encoded_name}"

    @property
    def tables(self) -> str:
        """Parent of one znode for each table that has ever been enabled or disabled, with its state; HBase 1 only."""
        return f"{self.base}/table"

    def table(self, name: str) -> str:
        return f"{self.tables}/{name}"

    @property
    def split_tasks(self) -> str:
        """Parent of one task for each WAL of a dead server that a live one is to split; HBase 1 only."""
        return f"{self.base}/splitWAL"

    def clients_read(self, path: str) -> bool:
        """Whether HBase lets clients without a login read a znode (ZNodePaths.isClientReadable)."""
        known = (self.base, self.meta_server, self.master, self.hbaseid, self.rs, self.tables)
        return path in known or path.startswith(f"{self.tables}/")

    @property
    def visibility_labels(self) -> str:
        """The visibility labels and their ordinals. Only the VisibilityController creates this znode."""
        return f"{self.base}/visibility/labels"

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
class OwnZNodes:
    """Paths below Walferry's own root for one source cluster. They contain its parent, as one ensemble may serve several."""

    root: str
    cluster: ZNodes

    def lease(self, peer_id: str, group: str) -> str:
        return f"{self.leases(peer_id)}/{quoted(group)}"

    def claim(self, server: str) -> str:
        """The lock of the run that claims a dead server's queues."""
        return f"{self.root}/claims/{quoted(self.cluster.base)}/{quoted(server)}"

    def history(self, peer_id: str) -> str:
        """How the peer's replication stood in the last day."""
        return f"{self.root}/history/{quoted(self.cluster.base)}/{quoted(peer_id)}"

    def runs(self, peer_id: str) -> str:
        """Parent of what is kept of the runs that have shipped the peer."""
        return f"{self.root}/runs/{quoted(self.cluster.base)}/{quoted(peer_id)}"

    def leases(self, peer_id: str) -> str:
        """Parent of the leases on the peer's WAL groups."""
        return f"{self.root}/leases/{quoted(self.cluster.base)}/{quoted(peer_id)}"

    def peer_lock(self, peer_id: str) -> str:
        """The lock under which one run at a time ships all queues of a peer."""
        return f"{self.root}/peer-locks/{quoted(self.cluster.base)}/{quoted(peer_id)}"

    def row_shipments(self, peer_id: str) -> str:
        """Parent of the holds of tasks that ship rows of scans to the peer's slave."""
        return f"{self.root}/row-shipments/{quoted(self.cluster.base)}/{quoted(peer_id)}"

    def shipping(self, peer_id: str) -> str:
        """Parent of one ephemeral znode for each group of the peer that is shipped now, if the peer has a bandwidth."""
        return f"{self.root}/shipping/{quoted(self.cluster.base)}/{quoted(peer_id)}"

    def archiving(self, wal: str) -> str:
        """The right to copy a WAL to the archive."""
        return f"{self.root}/archiving/{quoted(self.cluster.base)}/{quoted(wal)}"

    def initial_snapshot(self, peer_id: str) -> str:
        """What is known of the peer's initial snapshot."""
        return f"{self.root}/initial-snapshots/{quoted(self.cluster.base)}/{quoted(peer_id)}"

    def loading(self, peer_id: str, run_id: str) -> str:
        """An ephemeral znode that says how far a run is that loads files."""
        return f"{self.root}/loading/{quoted(f'{self.cluster.base}/{peer_id}/{run_id}')}"

    def loads(self, peer_id: str) -> str:
        """Parent of what is known of loads of files into the peer's slave."""
        return f"{self.root}/loads/{quoted(self.cluster.base)}/{quoted(peer_id)}"

    @property
    def master_role(self) -> str:
        """The lock of the run that acts as the cluster's master."""
        return f"{self.root}/regions/{quoted(self.cluster.base)}/role"

    @property
    def region_plans(self) -> str:
        """Parent of one plan for each region that is to go somewhere."""
        return f"{self.root}/regions/{quoted(self.cluster.base)}/plans"

    def region_plan(self, encoded_name: str) -> str:
        return f"{self.region_plans}/{quoted(encoded_name)}"

    def mark(self, peer_id: str, key: str) -> str:
        return f"{self.root}/marks/{quoted(self.cluster.base)}/{quoted(peer_id)}/{quoted(key)}"
