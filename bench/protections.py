"""What each protection of a peer cluster's RPC costs: one backlog, drained to peer clusters of each kind in turns.

    PYTHONPATH=plugins python -m bench.protections    WALFERRY_BENCH_PROTECTIONS_MB (142), WALFERRY_BENCH_PROTECTIONS_ROUNDS (3)

The source is not secured. The peer clusters are: one that is not secured either, and one of each kind in embedded.secured_site.
Each cluster is one JVM on local files, and all of them run all the time. Each drain has a peer, and so a queue with the same
WALs, of its own. This process ships it, `direct`, into a table that was emptied before; after it the peer cluster's rows are
counted. Each round begins with another kind. A first round, which is not counted, lets both sides compile what they run.

 seconds    while it shipped, without a Spark job's start
 times      of the seconds of the unsecured peer cluster in the same round
 own        CPU of this process
 peer       CPU of the peer cluster's JVM, ZooKeeper and Master among it, until the end of the drain
 connect    ms until a new connection has answered a first call that costs nothing: median of 50

A GB is that of WALs without compression.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.clusters import COLUMNS, ROW_BYTES, TABLE, VALUE_BYTES
from bench.processes import cpu_seconds
from embedded.certificates import Authority
from embedded.client import GLOBAL, ClientJvm, JavaClient, even_splits
from embedded.kerberos import Kerberos
from embedded.secured import principals
from embedded.secured_site import PEER_CLUSTERS, USER, WEST, MakeSite, SecuredSite, protected
from embedded.standalone import StandaloneCluster
from walferry.base.protos.hbase_pb2 import ReplicateWALEntryResponse
from walferry.base.security.login import Login
from walferry.engine.summary import Status
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import connect
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.queues.rolling import roll
from walferry.replication.source.cluster import SourceCluster, canonical, for_peer_cluster
from walferry.replication.source.logins import login_of
from walferry.replication.source.session import open_session
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob
from walferry.shipping.plan import plan_peer

MEGABYTES = int(os.environ.get("WALFERRY_BENCH_PROTECTIONS_MB", "142"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_PROTECTIONS_ROUNDS", "3"))
UNSECURED = "unsecured"
KINDS: Mapping[str, MakeSite] = {UNSECURED: protected(), **PEER_CLUSTERS}
SETTINGS = PeerSettings(sink=SinkKind.DIRECT)
REGIONS = 4
HEAP = "1g"  # with less a peer cluster would flush its memstores during a drain
CONNECTIONS = 50
TIMEOUT_SECONDS = 600
MB, GB = 1e6, 1e9
HEADER = (
    f"{'':16}{'':25}{'CPU-seconds a GB':^16}\n"
    f"{'':16}{'seconds':>9}{'MB/s':>8}{'times':>8}{'own':>8}{'peer':>8}"
)  # fmt: skip


@dataclass(frozen=True)
class Drain:
    """One drain of the backlog into a peer cluster of that kind. CPU in seconds."""

    kind: str
    rows: int
    seconds: float
    own_cpu: float
    peer_cpu: float

    def figures(self, unsecured: Drain) -> tuple[float, ...]:
        """Seconds, MB/s, times the seconds of a drain to the unsecured peer cluster, CPU-seconds a GB of ours and of the peer
        cluster."""
        size = self.rows * ROW_BYTES
        times = self.seconds / unsecured.seconds
        return self.seconds, size / MB / self.seconds, times, self.own_cpu / size * GB, self.peer_cpu / size * GB


def line(kind: str, figures: Sequence[float]) -> str:
    """A row of a table."""
    seconds, speed, times, own, peer_cluster = figures
    return f"{kind:16}{seconds:9.2f}{speed:8.1f}{times:8.2f}{own:8.1f}{peer_cluster:8.1f}"


def verdict(rounds: Sequence[Mapping[str, Drain]], connects: Mapping[str, float]) -> str:
    """Medians of the rounds, kind by kind, with the milliseconds that a connection takes."""
    lines = [f"{HEADER}{'connect':>9}"]
    for kind, took in connects.items():
        each = [drains[kind].figures(drains[UNSECURED]) for drains in rounds]
        medians = [statistics.median(figures) for figures in zip(*each, strict=True)]
        lines.append(f"{line(kind, medians)}{took:9.2f}")
    return "\n".join(lines)


@dataclass(frozen=True)
class PeerCluster:
    """A peer cluster of one kind: the site, HBase's own client of it, and as whom we come."""

    kind: str
    site: SecuredSite
    java: JavaClient
    login: Login

    @property
    def key(self) -> str:
        return self.site.cluster.address.cluster_key

    def cpu(self) -> float:
        """CPU seconds of its JVM so far."""
        return cpu_seconds([self.site.cluster.process.pid])


class Bench:
    """The source, the peer clusters, and the peers that lead from one to the others."""

    def __init__(self, cluster: StandaloneCluster, java: JavaClient, peer_clusters: Sequence[PeerCluster]) -> None:
        address = cluster.address
        self.peer_clusters = peer_clusters
        self._java = java
        self._source = SourceCluster(
            quorum=address.quorum,
            wal_root=address.wal_root,
            znode_parent=address.znode_parent,
            peer_conn_ids={canonical(peer_cluster.key): peer_cluster.kind for peer_cluster in peer_clusters},
            peer_clusters={
                for_peer_cluster(peer_cluster.kind, peer_cluster.key): peer_cluster.login for peer_cluster in peer_clusters
            },
        )
        java.create_table(TABLE, {"f": GLOBAL}, even_splits(REGIONS))
        for peer_cluster in peer_clusters:
            peer_cluster.java.create_table(TABLE, {"f": GLOBAL}, even_splits(REGIONS), async_wal=True)

    def write(self, rows: int, rounds: int) -> None:
        """Queue the same closed WALs for each round's drain to each peer cluster."""
        peers = {_peer(peer_cluster, round_): peer_cluster.key for peer_cluster in self.peer_clusters for round_ in range(rounds)}
        for peer, key in peers.items():
            self._java.add_managed_peer(peer, key)
        self._java.put_many(TABLE, rows, COLUMNS, value_bytes=VALUE_BYTES)
        with open_session(self._source) as session:
            rolled = roll(session, list(peers))
        if rolled.failures:
            raise RuntimeError(f"not rolled: {rolled.failures}")

    def round(self, round_: int, rows: int) -> dict[str, Drain]:
        """A drain to each peer cluster, by kind. Prints them."""
        first = round_ % len(self.peer_clusters)
        drains = [
            self._drain(peer_cluster, round_, rows) for peer_cluster in (*self.peer_clusters[first:], *self.peer_clusters[:first])
        ]
        by_kind = {drain.kind: drain for drain in drains}
        for drain in drains:
            print(line(drain.kind, drain.figures(by_kind[UNSECURED])), flush=True)
        return by_kind

    def _drain(self, peer_cluster: PeerCluster, round_: int, rows: int) -> Drain:
        peer = _peer(peer_cluster, round_)
        peer_cluster.java.empty_table(TABLE)
        with open_session(self._source) as session:
            (group,) = plan_peer(session, peer).groups
        job = GroupJob(
            source=self._source, peer_id=peer, group=group.group, run_id=peer, holder="bench", settings=SETTINGS,
            senders=SETTINGS.senders, deadline=time.time() + TIMEOUT_SECONDS,
        )  # fmt: skip
        peer_cluster_before, own_before, began = peer_cluster.cpu(), time.process_time(), time.monotonic()
        summary = ship_group(job)
        seconds = time.monotonic() - began
        drain = Drain(
            peer_cluster.kind, rows, seconds, time.process_time() - own_before, peer_cluster.cpu() - peer_cluster_before
        )
        found = peer_cluster.java.count_rows(TABLE)
        if (summary.status, summary.sink, found) != (Status.DONE, SinkKind.DIRECT, rows):
            raise RuntimeError(f"{peer_cluster.kind}: the peer cluster has {found} of {rows} rows; {summary}")
        return drain


def _peer(peer_cluster: PeerCluster, round_: int) -> str:
    return f"{peer_cluster.kind.replace('-', '_')}_{round_}"


def connect_ms(peer_cluster: PeerCluster) -> float:
    """Milliseconds until a new connection to the peer cluster's RegionServer has answered a first call. The median."""
    server = ServerName.parse(peer_cluster.java.region_servers()[0])
    took = []
    for _ in range(CONNECTIONS):
        began = time.monotonic()
        with connect(server, login=peer_cluster.login) as connection:
            connection.call("GetServerInfo", b"", ReplicateWALEntryResponse)  # any message without required fields works
            took.append(time.monotonic() - began)
    return statistics.median(took) * 1000


@contextmanager
def bench() -> Iterator[Bench]:
    """All clusters with tables. Their files are kept only if something fails."""
    folder = Path(tempfile.mkdtemp(prefix="walferry-bench-"))
    authority = Authority(folder / "authority")
    with Kerberos(folder / "kdc", {WEST: principals(USER)}) as kerberos, ExitStack() as stack:
        os.environ.update(kerberos.environment)
        source = StandaloneCluster(folder / "source", name="source", heap=HEAP)
        sites = {kind: make(folder / kind, kerberos, authority, kind, heap=HEAP) for kind, make in KINDS.items()}
        clusters = [source, *(site.cluster for site in sites.values())]
        for cluster in clusters:
            stack.callback(cluster.kill)
            cluster.launch()
        for cluster in clusters:
            cluster.await_ready()
        plain = stack.enter_context(ClientJvm(folder / "client"))
        secured = stack.enter_context(ClientJvm(folder / "client-secured", options=kerberos.jvm_options_in(WEST)))
        peer_clusters = [
            PeerCluster(
                kind, site, (secured if site.realm else plain).client(site.cluster.address), login_of(kind, site.fields())
            )
            for kind, site in sites.items()
        ]
        yield Bench(source, plain.client(source.address), peer_clusters)
    shutil.rmtree(folder)


def main() -> None:
    """Start the clusters, warm up, drain, print."""
    rows = MEGABYTES * 1_000_000 // ROW_BYTES
    with bench() as on:
        on.write(rows, 1 + ROUNDS)
        size = f"{rows:,} rows, {len(COLUMNS)} cells of {VALUE_BYTES} bytes each ({rows * ROW_BYTES / MB:.0f} MB)"
        print(f"{ROUNDS} rounds of {size}")
        print(f"{HEADER}\nto warm up", flush=True)
        on.round(0, rows)
        print("counted", flush=True)
        rounds = [on.round(round_, rows) for round_ in range(1, 1 + ROUNDS)]
        print(
            f"\nmedians\n{verdict(rounds, {peer_cluster.kind: connect_ms(peer_cluster) for peer_cluster in on.peer_clusters})}",
            flush=True,
        )


if __name__ == "__main__":
    main()
