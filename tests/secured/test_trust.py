"""Realms that trust each other, by MIT's own KDC where it is installed: one principal of ours is let in on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.client import GLOBAL, ClientJvm, JavaClient
from embedded.mit_kerberos import MitKerberos, missing_tools
from embedded.secured import HBASE, ZOOKEEPER
from embedded.secured_site import EAST, USER, WEST, SecuredSite, protected
from embedded.wire import delete_column, put
from tests.cluster.walferry_runs import roll, ship, source_of
from tests.secured.logins import login
from tests.secured.peers import CONN_ID, MANAGED, lead_to, peer_with_nobody
from walferry.admin.diagnosis.peers import peer_cluster_access
from walferry.engine.summary import Status
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.source.cluster import SourceCluster, for_peer_cluster
from walferry.replication.source.logins import login_of

IN_WEST = {"server_principals": f"{HBASE}@{WEST}", "zk_server_principal": f"{ZOOKEEPER}@{WEST}"}
NAMES_IT = {**MANAGED, "walferry.peer_conn_id": CONN_ID}
ROWS = 500

pytestmark = pytest.mark.skipif(bool(missing_tools()), reason=f"MIT's KDC is not installed: {', '.join(missing_tools())} missing")


@dataclass(frozen=True)
class Trust:
    """A source in EAST and a peer cluster in WEST, which know the one user of EAST."""

    source: SecuredSite
    peer_cluster: SecuredSite
    source_java: JavaClient
    peer_java: JavaClient

    def as_source(self, sink: SinkKind, **fields: str) -> SourceCluster:
        """The source as Walferry sees it; `fields` say how the servers in WEST are talked to by our principal of EAST."""
        at = source_of(self.source.cluster.address, sink)
        there = login_of("the peer cluster", {**self.source.fields(), **fields}).for_peer_clusters()
        peer_clusters = {for_peer_cluster(CONN_ID, self.peer_cluster.cluster.address.cluster_key): there}
        return SourceCluster(
            quorum=at.quorum,
            wal_root=at.wal_root,
            replication=at.replication,
            login=login(self.source),
            peer_clusters=peer_clusters,
        )


@pytest.fixture(scope="module")
def trust(cluster_folder: Path) -> Iterator[Trust]:
    """The two realms. WEST knows only its servers."""
    servers = [HBASE, ZOOKEEPER]
    folder = cluster_folder / "trust"
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        kdc = stack.enter_context(MitKerberos(folder / "kdc", {EAST: [*servers, USER], WEST: servers}))
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        source = protected("integrity", realm=EAST)(folder / "source", kdc, None, "trusted-source")  # type: ignore[arg-type]
        peer_cluster = protected("privacy", realm=WEST)(folder / "peer_cluster", kdc, None, "trusting-peer-cluster")  # type: ignore[arg-type]
        javas = []
        for site, realm in ((source, EAST), (peer_cluster, WEST)):
            stack.enter_context(site.cluster)
            jvm = stack.enter_context(ClientJvm(folder / f"client-{realm}", options=kdc.jvm_options_in(realm)))
            javas.append(jvm.client(site.cluster.address))
        yield Trust(source, peer_cluster, *javas)


@pytest.fixture
def peer(trust: Trust) -> Iterator[str]:
    with peer_with_nobody(trust.source, trust.source_java, NAMES_IT) as peer:
        lead_to(trust.source, peer, trust.peer_cluster.cluster.address.cluster_key)
        yield peer


@pytest.mark.usefixtures("files_of_all")
@pytest.mark.parametrize("sink", [SinkKind.DIRECT, SinkKind.REPLICATE, SinkKind.HFILES])
def test_one_principal_ships_into_a_realm_that_trusts_its_own(trust: Trust, peer: str, sink: SinkKind) -> None:
    table = f"t-{sink}"
    for client in (trust.source_java, trust.peer_java):
        client.create_table(table, {"f": GLOBAL}, [b"row5"], versions=3)
    trust.source_java.write(table, [put(f"row{n % 10}-{n}", {"f:a": b"v" * n}) for n in range(ROWS)])
    trust.source_java.write(table, [delete_column(f"row{n % 10}-{n}", "f:a") for n in range(0, ROWS, 7)])
    summaries = ship(trust.as_source(sink, **IN_WEST), peer)
    assert [summary.status for summary in summaries] == [Status.DONE] * len(summaries)
    assert {(summary.sink, summary.notLoaded) for summary in summaries if summary.shippedCells} == {(sink, None)}
    assert trust.peer_java.scan_all(table, raw=True) == trust.source_java.scan_all(table, raw=True)
    assert trust.peer_java.count_rows(table) > ROWS // 2


def looks(trust: Trust, **fields: str) -> dict[str, tuple[str, str]]:
    """Return the findings of a check of the peer cluster."""
    peer = Peer("p", trust.peer_cluster.cluster.address.cluster_key, DISABLED, NAMES_IT)
    found = peer_cluster_access(trust.as_source(SinkKind.DIRECT, **fields), peer)
    return {each.what.removeprefix("cluster of peer p: "): (str(each.severity), each.line) for each in found}


def test_a_check_says_that_all_is_well(trust: Trust) -> None:
    found = looks(trust, **IN_WEST)
    assert {what for what, (state, _) in found.items() if state != "well"} == set()
    assert "Kerberos with privacy" in found["RegionServers"][1]


def test_servers_of_a_realm_that_is_not_named_are_told(trust: Trust, peer: str) -> None:
    """Both sides have a server hbase/localhost: without a realm, our own realm is meant."""
    found = looks(trust, zk_server_principal=IN_WEST["zk_server_principal"])
    assert found["ZooKeeper"][0] == "well"
    assert found["RegionServers"][0] == "wrong"
    assert f"{HBASE}@{EAST}" in found["RegionServers"][1]
    trust.source_java.create_table("unnamed", {"f": GLOBAL})
    trust.source_java.write("unnamed", [put("row", {"f:a": b"v"})])
    roll(trust.as_source(SinkKind.DIRECT), peer)
    impatient = PeerSettings(patience_seconds=5.0)
    summaries = ship(trust.as_source(SinkKind.DIRECT, zk_auth="none"), peer, roll_first=False, settings=impatient)
    assert {summary.status for summary in summaries} == {Status.PEER_DOWN}, "their keys may have changed, so it waits a while"
    assert all(f"{HBASE}@{EAST}" in (summary.error or "") for summary in summaries)
