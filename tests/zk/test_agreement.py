"""Compares peers in ZooKeeper with a Master's answer. The Master is a stub here (see tests/cluster/test_stale_peers.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.peer_files import PeerFolders
from tests.sessions import session_of
from tests.unit.hbase.rpc.fake_server import FakeServer, answer, exception, hang_up
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, prefixed, wal
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.errors import (
    ChangingPeer,
    EnabledPeer,
    MasterPresent,
    MasterSilent,
    MissingPeer,
    PeerNotUnderstood,
    QueuesMigrating,
    StalePeer,
    StorageError,
    UnmanagedPeer,
)
from walferry.hbase.layout import QueueLayout
from walferry.hbase.rpc.errors import remote_error
from walferry.hbase.rpc.master import lacks_call
from walferry.hbase.values import PBUF
from walferry.replication.peers.reading import Peer, refusal
from walferry.replication.source import agreement
from walferry.replication.source.agreement import (
    check_agreement,
    check_no_change,
    check_peer,
    check_queues_complete,
    disagreements,
    master_peers,
    why_master_counts,
)
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.runs.steps import batch
from walferry.runs.values import ChosenPeers

UNSUPPORTED = "java.lang.UnsupportedOperationException: ListReplicationPeers\n\tat org.apache.hadoop.hbase.ipc.RpcServer"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> SourceCluster:
    return SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)


def peer(peer_id: str = "p", state: str = "DISABLED", **fields: Any) -> pb.ReplicationPeerDescription:
    config = pb.ReplicationPeer(**{"clusterkey": "127.0.0.1:2181:/peer_cluster", "replicate_all": True, **fields})
    if "configuration" not in fields:
        config.configuration.add(name="walferry.managed", value="true")
    value = pb.ReplicationState.State.Value(state)
    return pb.ReplicationPeerDescription(id=peer_id, state=pb.ReplicationState(state=value), config=config)


def knows(*peers: pb.ReplicationPeerDescription) -> Callable[[Any], bytes]:
    return lambda request: answer(request, pb.ListReplicationPeersResponse(peer_desc=peers).SerializeToString())


@contextmanager
def master(hbase: HBaseZNodes, *behaviours: Any) -> Iterator[FakeServer]:
    with FakeServer(*behaviours) as server:
        name = pb.ServerName(host_name=server.host, port=server.port, start_code=1)
        hbase.zk.create(hbase.nodes.master, prefixed(PBUF + pb.Master(master=name).SerializeToString()))
        yield server


def be_of(hbase: HBaseZNodes, version: str, server: str = SERVER) -> None:
    """Have the RegionServer's znode name this release."""
    of = pb.VersionInfo(version=version, url="", revision="", user="", date="", src_checksum="")
    hbase.zk.set(f"{hbase.nodes.rs}/{server}", prefixed(PBUF + pb.RegionServerInfo(version_info=of).SerializeToString()))


def test_a_peer_that_both_know_alike_may_be_shipped(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    with master(hbase, knows(peer(), peer("another", "ENABLED"))) as server:
        assert check_peer(session_of(zk, source), "p").id == "p"
    assert [request.header.method_name for request in server.requests] == ["ListReplicationPeers"]


def test_a_run_that_was_told_of_no_master_trusts_zookeeper(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster, tmp_path: Path
) -> None:
    session = session_of(zk, replace(source, master_absent=True, wal_root=f"file://{tmp_path}"))
    assert check_peer(session, "p").id == "p"
    assert disagreements(session, ["p", "nobody"]) == {}
    assert why_master_counts(session) is None
    with pytest.raises(MissingPeer):
        check_peer(session, "nobody")


def test_a_run_that_was_told_of_no_master_does_nothing_while_there_is_one(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    session = session_of(zk, replace(source, master_absent=True))
    with master(hbase, knows(peer())) as server:
        with pytest.raises(
            MasterPresent, match=r"an HMaster is active \(.*/master is there\), but this run was told that none is"
        ):
            check_peer(session, "p")
        assert isinstance(why_master_counts(session), MasterPresent)
        assert why_master_counts(session_of(zk, source)) is None, "other runs need a master"
        assert server.requests == []


@pytest.mark.parametrize("root", ["wal_root", "root_dir"])
def test_a_run_that_was_told_of_no_master_does_nothing_if_peers_may_be_in_files(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster, tmp_path: Path, root: str
) -> None:
    (tmp_path / "peers").mkdir()
    session = session_of(zk, replace(source, master_absent=True, **{root: f"file://{tmp_path}/"}))
    with pytest.raises(MasterPresent, match=f"{tmp_path}/peers is there: the cluster may keep its peers in files"):
        check_peer(session, "p")


def test_peers_in_files_count_for_a_run_that_was_told_of_no_master_if_the_connection_names_them(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster, tmp_path: Path
) -> None:
    files = PeerFolders(tmp_path / "peers")
    files.add_peer("p", "ENABLED")
    session = session_of(zk, replace(source, master_absent=True, wal_root=f"file://{tmp_path}", peers_root=files.url))
    with pytest.raises(EnabledPeer):
        check_peer(session, "p")
    files.set_state("p", "DISABLED")
    assert check_peer(session, "p").id == "p"


def test_files_that_the_connection_does_not_name_are_named_where_zookeeper_s_copies_are_stale(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster, tmp_path: Path
) -> None:
    session = session_of(zk, replace(source, wal_root=f"file://{tmp_path}"))
    with master(hbase, *[knows(peer(), peer("new"))] * 2 * agreement.TRIES):
        for where in ("their folder", f"file://{tmp_path}/peers"):
            with pytest.raises(StalePeer, match=r"^peer new: the Master knows it \(DISABLED\), but there is no /hbase") as stale:
                check_agreement(session, "new")
            assert str(stale.value).endswith(f"peers in files, set peers_root in the connection's extra to {where}")
            PeerFolders(tmp_path / "peers").root.mkdir(exist_ok=True)


@pytest.mark.parametrize(
    ("theirs", "what"),
    [
        (peer(state="ENABLED"), r"another state \(ENABLED, in files DISABLED\) than file://.*/peers/p has"),
        (peer(serial=True), "another serial than file://"),
        (peer("another"), "file://.*/peers/p is there, but the Master does not know such a peer"),
    ],
    ids=["state", "config", "removed"],
)
def test_old_copies_in_files_are_found_out_too(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster, tmp_path: Path, theirs: pb.ReplicationPeerDescription, what: str
) -> None:
    """As after `hbase copyreppeers filesystem zookeeper`."""
    files = PeerFolders(tmp_path / "peers")
    files.add_peer("p")
    session = session_of(zk, replace(source, peers_root=files.url))
    match = f"{what}.*filesystem zookeeper`. If HBase keeps its peers in ZooKeeper, take peers_root out"
    with master(hbase, *[knows(theirs)] * agreement.TRIES, knows(peer())):
        with pytest.raises(StalePeer, match=match):
            check_peer(session, "p")
        assert check_peer(session, "p").id == "p"


OVER, WAITING = pb.Procedure.SUCCESS, pb.Procedure.WAITING


def is_doing(*procedures: tuple[str, Any]) -> Callable[[Any], bytes]:
    package = "org.apache.hadoop.hbase.master.replication"
    found = [pb.Procedure(class_name=f"{package}.{name}", state=state) for name, state in procedures]
    return lambda request: answer(request, pb.GetProceduresResponse(procedure=found).SerializeToString())


def peer_of_hbase_3(**fields: Any) -> pb.ReplicationPeerDescription:
    found = peer(**fields)
    found.syncReplicationState.state = pb.SyncReplicationState.NONE
    return found


def is_migrating(*states: int) -> Callable[[Any], bytes]:
    """The Master's migration of queues has gone through these states."""
    data = pb.StateMachineProcedureData(state=states).SerializeToString()
    message = pb.Any(type_url="type.googleapis.com/hbase.pb.StateMachineProcedureData", value=data)
    name = "org.apache.hadoop.hbase.master.replication.MigrateReplicationQueueFromZkToTableProcedure"
    found = pb.Procedure(class_name=name, state=pb.Procedure.WAITING_TIMEOUT, state_message=[message])
    return lambda request: answer(request, pb.GetProceduresResponse(procedure=[found]).SerializeToString())


def test_a_master_of_hbase_3_has_moved_the_queues_away_from_zookeeper(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    refused = pytest.raises(StorageError, match=r"HMaster runs HBase 3\. .* Set queue_layout in the connection's extra to 3\.x")
    with master(hbase, knows(peer_of_hbase_3())), refused:
        check_peer(session_of(zk, source), "p")


def test_a_table_of_queues_counts_once_the_master_has_filled_it(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    session = session_of(zk, replace(source, queue_layout=QueueLayout.TABLE))
    known = knows(peer_of_hbase_3())
    with master(
        hbase, known, is_migrating(), known, is_migrating(1, 2, 3, 4), known, is_migrating(1, 2, 3, 4, 5), known, is_doing()
    ):
        for _ in range(2):
            with pytest.raises(QueuesMigrating, match="has not moved all queues") as raised:
                check_peer(session, "p")
            assert raised.value.retry_helps
        assert check_peer(session, "p").id == "p", "what RegionServers of HBase 2 still queue in ZooKeeper does not count"
        assert check_peer(session, "p").id == "p"


def test_a_serial_peer_of_hbase_3_is_refused_by_name(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    config = pb.ReplicationPeer(clusterkey="127.0.0.1:2181:/peer_cluster", replicate_all=True, serial=True)
    config.configuration.add(name="walferry.managed", value="true")
    zk.set(hbase.nodes.peer("p"), prefixed(PBUF + config.SerializeToString()))
    session = session_of(zk, replace(source, queue_layout=QueueLayout.TABLE))
    with pytest.raises(PeerNotUnderstood, match=r"it is serial, and its last pushed ids are in a table of HBase 3"):
        check_peer(session, "p")
    assert "it is serial" in (refusal(read_peer(session, "p")) or ""), "a status says so, too"


def serves(*servers: str) -> Callable[[Any], bytes]:
    """The Master knows these live servers."""
    load = pb.ServerLoad(report_end_time=1)
    names = [pb.ServerName(host_name=h, port=int(p), start_code=int(c)) for h, p, c in (server.split(",") for server in servers)]
    status = pb.ClusterStatus(live_servers=[pb.LiveServerInfo(server=name, server_load=load) for name in names])
    return lambda request: answer(request, pb.GetClusterStatusResponse(cluster_status=status).SerializeToString())


def test_before_a_queue_of_hbase_3_is_believed_to_be_empty_the_master_has_to_be_done(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    session = session_of(zk, replace(source, queue_layout=QueueLayout.TABLE))
    crash, added = is_doing(("ServerCrashProcedure", WAITING)), is_doing(("AddPeerProcedure", WAITING))
    done, here = is_doing(("ServerCrashProcedure", OVER)), serves(SERVER)
    with master(hbase, crash, here, added, here, done, serves(SERVER, DEAD), done, serves(), done, here):
        for _ in range(4):  # a crash, an unfinished peer, a server whose session has just ended, one that has just started
            with pytest.raises(ChangingPeer, match="so a queue may be missing"):
                check_queues_complete(session, "p")
        check_queues_complete(session, "p")
    check_queues_complete(session_of(zk, source), "p")  # in ZooKeeper each live server has its queue before it writes


def test_a_connection_that_looks_for_a_table_at_hbase_2_is_refused(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    session = session_of(zk, replace(source, queue_layout=QueueLayout.TABLE))
    refused = pytest.raises(StorageError, match=r"the HMaster runs HBase 2.* Set queue_layout in the connection's extra to 2\.x")
    with master(hbase, knows(peer())), refused:
        check_peer(session, "p")


@pytest.mark.parametrize("name", ["sync-rep-state", "new-sync-rep-state"])
def test_states_of_synchronous_replication_are_read_and_only_none_is_shipped(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster, name: str
) -> None:
    path, states = f"{hbase.nodes.peer('p')}/{name}", pb.SyncReplicationState
    zk.create(path, prefixed(PBUF + states(state=states.NONE).SerializeToString()))
    with master(hbase, knows(peer())):
        assert check_peer(session_of(zk, source), "p").id == "p"
    zk.set(path, prefixed(PBUF + states(state=states.ACTIVE).SerializeToString()))
    with pytest.raises(PeerNotUnderstood, match=f"a state of synchronous replication in {path}"):
        check_peer(session_of(zk, source), "p")


def test_a_peer_with_a_remote_wal_dir_is_refused_by_name(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    config = pb.ReplicationPeer(clusterkey="127.0.0.1:2181:/peer_cluster", replicate_all=True, remoteWALDir="hdfs://nn/remote")
    config.configuration.add(name="walferry.managed", value="true")
    zk.set(hbase.nodes.peer("p"), prefixed(PBUF + config.SerializeToString()))
    with pytest.raises(PeerNotUnderstood, match=r"it has a remoteWALDir \(synchronous replication\)"):
        check_peer(session_of(zk, source), "p")


SERIAL = Peer("p", "zk:2181:/hbase", "DISABLED", {}, serial=True)


def test_a_serial_peer_waits_until_the_master_has_finished_changes_of_peers(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    over = is_doing(("UpdatePeerConfigProcedure", OVER), ("RefreshPeerProcedure", WAITING))
    with master(hbase, over, is_doing(("AddPeerProcedure", WAITING))) as server:
        check_no_change(session_of(zk, source), replace(SERIAL, serial=False))
        assert server.requests == []
        check_no_change(session_of(zk, source), SERIAL)
        with pytest.raises(ChangingPeer, match=r"^peer p: the HMaster has not finished") as changing:
            check_no_change(session_of(zk, source), SERIAL)
    assert changing.value.retry_helps


def test_a_serial_peer_is_not_shipped_while_nobody_says_whether_a_change_is_finished(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    with pytest.raises(MasterSilent, match="no master is active"):
        check_no_change(session_of(zk, source), SERIAL)
    with pytest.raises(ChangingPeer, match="without an HMaster nothing says"):
        check_no_change(session_of(zk, replace(source, master_absent=True)), SERIAL)


@pytest.mark.parametrize(
    ("theirs", "what"),
    [
        (peer(state="ENABLED"), r"another state \(ENABLED, in ZooKeeper DISABLED\)"),
        (peer(configuration=[]), "another config"),
        (peer(clusterkey="127.0.0.1:2181:/elsewhere"), "another cluster_key"),
        (peer(replicate_all=False, namespaces=[b"n"]), "another replicate_all, namespaces"),
        (peer(exclude_namespaces=[b"n"]), "another exclude_namespaces"),
        (peer(table_cfs=[pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=b"t"))]), "another table_cfs"),
        (peer(serial=True), "another serial"),
        (peer(replicationEndpointImpl="org.example.E"), "another endpoint_impl"),
        (peer("another"), "the Master does not know such a peer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_contradicts_is_refused_and_named(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster, theirs: pb.ReplicationPeerDescription, what: str
) -> None:
    with master(hbase, knows(theirs)), pytest.raises(StalePeer, match=f"^peer p: .*{what}.*copyreppeers zookeeper filesystem"):
        check_peer(session_of(zk, source), "p")


def test_many_peers_are_asked_for_by_one_call_and_those_that_only_the_master_knows_are_refused(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    hbase.add_peer("q")
    with master(hbase, knows(peer(), peer("q", serial=True), peer("r"))) as server:
        found = disagreements(session_of(zk, source), ["p", "q", "r", "nobody"])
        assert set(found) == {"q", "r"}
        assert len(server.requests) == agreement.TRIES
        assert disagreements(session_of(zk, source), ["p"]) == {}
        assert len(server.requests) == agreement.TRIES + 1
        with pytest.raises(MissingPeer):
            check_peer(session_of(zk, source), "nobody")


def test_the_last_peer_that_was_removed_is_gone_for_both_though_its_queue_is_left(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    hbase.zk.delete(hbase.nodes.peer("p"), recursive=True)
    with master(hbase, knows(), knows(peer())):
        check_agreement(session_of(zk, source), "p")
        with pytest.raises(StalePeer, match="the Master knows it"):
            check_agreement(session_of(zk, source), "p")


def test_a_change_that_is_under_way_is_no_contradiction(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    """The Master writes a change to ZooKeeper first, and to its own memory after that."""
    with master(hbase, knows(peer(state="ENABLED")), knows(peer())):
        check_agreement(session_of(zk, source), "p")


def test_what_zookeeper_refuses_alone_needs_no_master(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    hbase.add_peer("stranger", config={})
    with pytest.raises(UnmanagedPeer):
        check_peer(session_of(zk, source), "stranger")


def test_without_an_active_master_nothing_is_touched_until_one_answers(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    with pytest.raises(MasterSilent, match=r"no master is active.*Nothing is touched until it answers; try again"):
        check_peer(session_of(zk, source), "p")
    with master(hbase, hang_up), pytest.raises(MasterSilent, match="connection to") as silent:
        check_peer(session_of(zk, source), "p")
    assert silent.value.retry_helps


def test_a_user_who_may_not_ask_is_told_what_it_takes(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    denied = exception("org.apache.hadoop.hbase.security.AccessDeniedException", "Insufficient permissions", do_not_retry=True)
    with master(hbase, denied), pytest.raises(MasterSilent, match=r"Insufficient permissions.*needs global ADMIN") as refused:
        check_peer(session_of(zk, source), "p")
    assert not refused.value.retry_helps


def test_hbase_1_has_its_peers_in_zookeeper_and_no_such_call(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    with master(hbase, exception("org.apache.hadoop.hbase.DoNotRetryIOException", UNSUPPORTED, do_not_retry=True)):
        assert master_peers(session_of(zk, source)) is None
        check_peer(session_of(zk, source), "p")


@pytest.mark.parametrize(("version", "asked"), [("1.7.2", False), ("0.98.24", False), ("2.6.1", True), ("10.0.0", True)])
def test_a_cluster_of_hbase_1_without_a_master_is_known_by_its_region_servers(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster, version: str, asked: bool
) -> None:
    be_of(hbase, version)
    if asked:
        with pytest.raises(MasterSilent):
            check_peer(session_of(zk, source), "p")
    else:
        assert check_peer(session_of(zk, source), "p").managed


def test_only_the_call_s_own_absence_says_that_the_master_is_old() -> None:
    def error(trace: str):
        return remote_error("m:1", pb.ExceptionResponse(exception_class_name="org.apache.X", stack_trace=trace))

    assert lacks_call(error(f"org.apache.X: {UNSUPPORTED}"), "ListReplicationPeers")
    assert not lacks_call(error(f"org.apache.X: {UNSUPPORTED}"), "GetReplicationPeerConfig")
    assert not lacks_call(error("org.apache.X: java.lang.UnsupportedOperationException: no peers here"), "ListReplicationPeers")


def test_a_peer_that_cannot_be_read_delays_no_other(zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster) -> None:
    """HBase accepts families that are not UTF-8. ZooKeeper's part of such a peer has its own problem, too."""
    odd = [pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=b"t"), families=[b"\xff"])]
    hbase.add_peer("odd", exclude_table_cfs=odd)
    with master(hbase, knows(peer(), peer("odd", exclude_table_cfs=odd))):
        assert check_peer(session_of(zk, source), "p").id == "p"
        assert batch.choose(source, None).peers == ["p"]
        assert disagreements(session_of(zk, source), ["p", "odd"]) == {}
        hbase.zk.delete(hbase.nodes.peer("odd"), recursive=True)
        assert list(disagreements(session_of(zk, source), ["p", "odd"])) == ["odd"]  # its queues are not orphans


def test_a_batch_asks_the_master_once_for_all_its_peers(hbase: HBaseZNodes, source: SourceCluster) -> None:
    hbase.add_peer("q")
    with master(hbase, knows(peer(), peer("q"))) as server:
        chosen = batch.choose(source, None)
        assert (chosen.peers, chosen.refused) == (["p", "q"], [])
        for peer_id in chosen.peers:
            assert batch.plan(source, peer_id, "run.1", "run", chosen).groups == 0
        assert [request.header.method_name for request in server.requests] == ["ListReplicationPeers"]


@pytest.mark.parametrize("kind", ["refused", "long ago"])
def test_a_plan_asks_the_master_itself_if_it_has_refused_the_peer_or_was_asked_long_ago(
    hbase: HBaseZNodes, source: SourceCluster, kind: str
) -> None:
    chosen = ChosenPeers(["p"], ["p"], time.time()) if kind == "refused" else ChosenPeers(["p"], [], time.time() - 3600)
    with master(hbase, *[knows(peer(state="ENABLED"))] * 3), pytest.raises(StalePeer):
        batch.plan(source, "p", "run.1", "run", chosen)
