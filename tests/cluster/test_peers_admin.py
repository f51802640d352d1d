"""Creates, takes over, hands back and removes peers on two real clusters. HBase's own Java client checks the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from embedded.client import GLOBAL, LOCAL, JavaClient, PeerDescription
from embedded.processes import wait_until
from embedded.standalone import StandaloneCluster
from embedded.wire import put
from tests.cluster.managed_peers import admin, clusters, command, create_for_all, peer_id, wal_count
from tests.cluster.walferry_runs import ship, source_of
from walferry.admin.creating import create, take_over
from walferry.admin.handing_back import begin_hand_back, finish_hand_back
from walferry.admin.peers import Refused, peer_admin
from walferry.admin.removing import remove
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import CustomEndpointPeer, MissingPeer, StorageError, UnmanagedPeer
from walferry.hbase.rpc import master
from walferry.replication.peers.reading import DISABLED
from walferry.replication.queues import lease
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.peers import read_peer

__all__ = ["admin", "clusters", "command", "peer_id"]  # fixtures


def test_a_created_peer_is_disabled_marked_and_queued_for(clusters, admin, peer_id):
    name = peer_id()
    create_for_all(admin, name, clusters.key)
    assert clusters.peer(name) == PeerDescription(name, False, clusters.key, {"walferry.managed": "true"}, True, False)
    (queue,) = read_queues(admin.session, name)
    assert queue.server in clusters.source.region_servers()
    assert queue.wals


def test_what_is_written_after_the_creation_is_shipped_by_a_batch(clusters, admin, peer_id, unique):
    name, table = peer_id(), clusters.table(unique("t"))
    create_for_all(admin, name, clusters.key)
    clusters.write(table, "a")
    clusters.batch(name)
    assert clusters.source.compare(table, clusters.peer_cluster).same
    assert clusters.peer_cluster.count_rows(table) == 200


def test_a_peer_can_be_created_for_some_namespaces_and_tables(clusters, admin, peer_id, unique):
    name = peer_id()
    one, two, table = unique("ns"), unique("ns"), unique("t")
    for client in (clusters.source, clusters.peer_cluster):
        for namespace in (one, two):
            client.create_namespace(namespace)
        client.create_table(table, {"f1": GLOBAL, "f2": GLOBAL, "f3": LOCAL})
        client.create_table(f"{two}:t", {"f": GLOBAL})
    peer = create(admin, name, clusters.key, namespaces=[one], table_cfs={table: ["f1", "f2"], f"{two}:t": []})
    assert not peer.replicate_all
    assert peer.namespaces == {one}
    assert peer.table_cfs == {table: ("f1", "f2"), f"{two}:t": ()}
    assert not clusters.peer(name).replicate_all


def test_what_is_not_there_is_refused_side_by_side_and_added_only_if_that_is_said(clusters, admin, peer_id, unique):
    name, table = peer_id(), unique("t")
    clusters.source.create_table(table, {"f": GLOBAL, "g": GLOBAL, "l": LOCAL})
    clusters.peer_cluster.create_table(table, {"f": GLOBAL})
    wanted = {table: ["f", "g", "l", "x"], "nowhere:t": []}
    with pytest.raises(Refused) as refused:
        create(admin, name, clusters.key, namespaces=["none"], table_cfs=wanted)
    said = str(refused.value)
    for problem in (
        "there is no namespace none at the source; there is no namespace none at the peer cluster;",
        f"table {table} has no family x at the source, only f, g, l;",
        f"family l of table {table} has REPLICATION_SCOPE 0 at the source,",
        f"table {table} has no family g at the peer cluster, only f;",
        "there is no table nowhere:t at the source; there is no table nowhere:t at the peer cluster.",
        "with --allow-missing it is done all the same",
    ):
        assert problem in said
    with pytest.raises(Refused, match=f"table {table} has no family g at the peer cluster, only f"):
        create(admin, name, clusters.key)  # for all user tables
    assert clusters.peer(name) is None
    assert create(admin, name, clusters.key, table_cfs={table: ["g"]}, allow_missing=True).table_cfs == {table: ("g",)}
    clusters.source.drop_table(table)


def test_a_peer_cluster_that_is_not_there_is_told_of_in_seconds(admin, peer_id):
    began = time.monotonic()
    with pytest.raises(Refused, match=r"the name no-such-host\.invalid does not resolve .*--allow-missing") as refused:
        create(admin, peer_id(), "no-such-host.invalid:2181:/hbase")
    assert time.monotonic() - began < 20
    assert "the cluster of peer" in str(refused.value)
    assert "source" not in str(refused.value)


def test_a_peer_cluster_under_another_znode_is_told_of_by_its_cluster_key(clusters, admin, peer_id):
    name, key = peer_id(), clusters.key + "-none"
    with pytest.raises(Refused, match=rf"no HBase cluster has started .* Check the cluster key of peer {name}, {key}\."):
        create(admin, name, key)


def test_creating_a_peer_again_changes_nothing(clusters, admin, peer_id):
    name = peer_id()
    first = create_for_all(admin, name, clusters.key)
    assert create_for_all(admin, name, clusters.key) == first


def test_creating_a_peer_again_for_other_tables_is_refused(clusters, admin, peer_id, unique):
    name, table = peer_id(), clusters.table(unique("t"))
    first = create(admin, name, clusters.key, table_cfs={table: ["f"]})
    assert create(admin, name, clusters.key, table_cfs={table: ["f"]}) == first
    for other in ({}, {"table_cfs": {table: []}}, {"namespaces": ["default"]}):
        with pytest.raises(Refused, match=f"peer {name} exists already, for other tables or namespaces"):
            create(admin, name, clusters.key, **other)


def test_the_id_of_a_peer_that_is_not_managed_is_refused(clusters, admin, peer_id):
    name = peer_id()
    clusters.source.add_peer(name, clusters.key, enabled=False)
    with pytest.raises(Refused, match=rf"peer {name} exists already \(not managed"):
        create(admin, name, clusters.key)
    assert clusters.peer(name).configuration == {}


def test_a_peer_id_with_a_dash_is_refused(clusters, admin):
    with pytest.raises(Refused, match="'a-b' is not a peer id"):
        create(admin, "a-b", clusters.key)


def test_a_cluster_key_that_is_none_is_refused(admin, peer_id):
    with pytest.raises(Refused, match="cluster key 'peer_cluster'"):
        create(admin, peer_id(), "peer_cluster")


@pytest.mark.parametrize("allow_missing", [False, True])
def test_a_peer_to_the_source_itself_is_refused(clusters, admin, peer_id, allow_missing):
    with pytest.raises(Refused, match="leads to the source cluster itself"):
        create(admin, peer_id(), clusters.source.address.cluster_key, allow_missing=allow_missing)


@pytest.fixture
def briefly_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """HBase's calls take milliseconds here: a peer that HBase has shipped counts as at rest seconds after it was disabled."""
    monkeypatch.setattr(lease, "HBASE_CALL_SECONDS", 1.0)


def test_a_disabled_peer_is_taken_over_with_its_backlog(clusters, admin, peer_id, unique, briefly_settling):
    name, table = peer_id(), clusters.table(unique("t"))
    clusters.source.add_peer(name, clusters.key)
    clusters.write(table, "shipped-by-hbase")
    wait_until(lambda: clusters.peer_cluster.count_rows(table) == 200, "HBase has replicated", processes=[], timeout=60)
    clusters.source.disable_peer(name)
    for i in range(3):
        clusters.write(table, f"backlog{i}-")
        clusters.source.roll_wals()

    peer = take_over(admin, name)
    assert (peer.managed, peer.state) == (True, DISABLED)
    assert clusters.peer(name).configuration == {"walferry.managed": "true"}
    assert take_over(admin, name) == peer

    servers = clusters.source.region_servers()
    for i in range(3):
        clusters.write(table, f"later{i}-")
        clusters.batch(name)
    assert clusters.source.compare(table, clusters.peer_cluster).same
    assert clusters.peer_cluster.count_rows(table) == 1400
    assert clusters.source.region_servers() == servers  # no server has aborted over WALs that left its queue


def test_an_enabled_peer_is_not_taken_over(clusters, admin, peer_id):
    name = peer_id()
    clusters.source.add_peer(name, clusters.key)
    with pytest.raises(Refused, match=rf"peer {name} is ENABLED.*disable_peer '{name}'"):
        take_over(admin, name)
    assert clusters.peer(name) == PeerDescription(name, True, clusters.key, {}, True, False)


def test_a_peer_with_an_endpoint_of_its_own_is_not_taken_over(clusters, admin, peer_id):
    name = peer_id()
    endpoint = "org.apache.hadoop.hbase.replication.regionserver.RegionReplicaReplicationEndpoint"
    config = pb.ReplicationPeer(clusterkey=clusters.key, replicationEndpointImpl=endpoint, replicate_all=True)
    with master.connect(active_master(admin.session.zk, admin.session.nodes)) as connection:
        master.add_peer(connection, name, config, enabled=False)
    with pytest.raises(CustomEndpointPeer, match="RegionReplicaReplicationEndpoint"):
        take_over(admin, name)
    assert clusters.peer(name).configuration == {}


def test_a_peer_that_is_not_there_is_not_taken_over(admin):
    with pytest.raises(MissingPeer):
        take_over(admin, "nobody")


def test_a_handed_back_peer_loses_nothing(clusters, admin, peer_id, unique):
    ours, new, table = peer_id(), peer_id(), clusters.table(unique("t"))
    create_for_all(admin, ours, clusters.key)
    clusters.write(table, "shipped")
    clusters.batch(ours)
    clusters.write(table, "backlog")
    clusters.source.roll_wals()
    clusters.write(table, "in-the-open-wal")
    wait_until(lambda: wal_count(admin, ours) > 1, "the WAL is rolled", processes=[], timeout=30)

    successor = begin_hand_back(admin, ours, new)
    assert (successor.state, successor.managed) == (DISABLED, False)
    assert clusters.peer(new) == PeerDescription(new, False, clusters.key, {"walferry.succeeds": ours}, True, False)
    assert not clusters.peer(ours).enabled
    clusters.write(table, "after")
    with pytest.raises(Refused, match=rf"2 WALs \(.*\) are queued for {ours} alone. Let a batch ship it"):
        finish_hand_back(admin, ours, new)
    assert begin_hand_back(admin, ours, new) == successor  # may be repeated

    clusters.batch(ours)
    assert clusters.peer_cluster.count_rows(table) == 800, "the peer cluster does not fall behind"
    servers = clusters.source.region_servers()
    finish_hand_back(admin, ours, new)
    assert (clusters.peer(ours), clusters.peer(new).enabled) == (None, True)
    assert read_queues(admin.session, ours) == []
    finish_hand_back(admin, ours, new)
    clusters.write(table, "by-hbase-alone")
    wait_until(lambda: clusters.peer_cluster.count_rows(table) == 1000, "HBase has replicated", processes=[], timeout=60)
    assert clusters.source.compare(table, clusters.peer_cluster).same
    assert clusters.source.region_servers() == servers


def value_at(client: JavaClient, table: str) -> bytes | None:
    """Return the value of the only cell."""
    cells = client.scan_all(table)
    return cells[0].value if cells else None


def handed_back_with_a_value(clusters, admin, peer_id, unique) -> tuple[str, str, str, Callable[[bytes], None]]:
    """Begin to hand back a peer with the cell v1 as backlog. Returns its id, the new id, the table, a writer of the cell."""
    ours, new, table = peer_id(), peer_id(), clusters.table(unique("t"))

    def write(value: bytes) -> None:
        clusters.source.write(table, [put("row", {"f:q": value}, timestamp=5)])

    create_for_all(admin, ours, clusters.key)
    write(b"v1")
    clusters.source.roll_wals()
    begin_hand_back(admin, ours, new)
    return ours, new, table, write


def test_after_a_hand_back_the_newest_of_values_with_one_timestamp_counts(clusters, admin, peer_id, unique):
    """HBase must not ship the newer value while Walferry has the older one in its backlog."""
    ours, new, table, write = handed_back_with_a_value(clusters, admin, peer_id, unique)
    write(b"v2")
    if clusters.peer(new).enabled:
        wait_until(lambda: value_at(clusters.peer_cluster, table) == b"v2", "HBase has shipped", processes=[], timeout=60)
    assert [summary.error for summary in ship(clusters.at, ours, roll_first=False) if summary.error] == []
    assert value_at(clusters.peer_cluster, table) == b"v1"
    finish_hand_back(admin, ours, new)
    wait_until(lambda: value_at(clusters.peer_cluster, table) == b"v2", "HBase has shipped", processes=[], timeout=60)


def test_a_hand_back_ends_well_though_hbase_has_shipped_the_new_peer_too_early(
    clusters, admin, peer_id, unique, briefly_settling
):
    """HBase begins where it stopped. Walferry ships the edits that HBase has shipped until then again, last and in order."""
    ours, new, table, write = handed_back_with_a_value(clusters, admin, peer_id, unique)
    clusters.source.enable_peer(new)
    write(b"v2")
    wait_until(lambda: value_at(clusters.peer_cluster, table) == b"v2", "HBase has shipped", processes=[], timeout=60)
    assert [summary.error for summary in ship(clusters.at, ours, roll_first=False) if summary.error] == []
    assert value_at(clusters.peer_cluster, table) == b"v1"
    with pytest.raises(Refused, match=f"peer {new} is ENABLED while Walferry ships {ours}"):
        finish_hand_back(admin, ours, new)
    clusters.source.disable_peer(new)
    with pytest.raises(Refused, match=f"queued for {ours} alone"):
        finish_hand_back(admin, ours, new)
    clusters.batch(ours)
    assert value_at(clusters.peer_cluster, table) == b"v2"
    finish_hand_back(admin, ours, new)
    write(b"v3")
    wait_until(lambda: value_at(clusters.peer_cluster, table) == b"v3", "HBase has shipped", processes=[], timeout=60)


def test_a_handed_back_peers_successor_has_its_filters(clusters, admin, peer_id):
    ours, new = peer_id(), peer_id()
    create(admin, ours, clusters.key, table_cfs={"t1": ["f"]}, allow_missing=True)
    assert begin_hand_back(admin, ours, new).table_cfs == {"t1": ("f",)}


def test_a_hand_back_that_has_begun_goes_on_to_the_same_peer_only(clusters, admin, peer_id):
    ours, new = peer_id(), peer_id()
    create_for_all(admin, ours, clusters.key)
    begin_hand_back(admin, ours, new)
    with pytest.raises(Refused, match=f"is being handed back to {new} already"):
        begin_hand_back(admin, ours, peer_id())


def test_a_hand_back_that_was_killed_before_the_new_peer_was_there_goes_on(clusters, admin, peer_id):
    ours, new = peer_id(), peer_id()
    create_for_all(admin, ours, clusters.key)
    clusters.source.put_peer_configuration(ours, {"walferry.handed-back-to": new})
    assert begin_hand_back(admin, ours, new).state == DISABLED
    assert clusters.peer(new).configuration == {"walferry.succeeds": ours}


def test_a_peer_is_not_handed_back_to_one_that_exists(clusters, admin, peer_id):
    ours, other = peer_id(), peer_id()
    create_for_all(admin, ours, clusters.key)
    clusters.source.add_peer(other, clusters.key)
    with pytest.raises(Refused, match=f"peer {other} exists already"):
        begin_hand_back(admin, ours, other)


def test_a_hand_back_cannot_be_finished_before_it_has_begun(clusters, admin, peer_id):
    ours = peer_id()
    create_for_all(admin, ours, clusters.key)
    with pytest.raises(Refused, match="Do that first, without --finish"):
        finish_hand_back(admin, ours, "p2")


@pytest.mark.parametrize("act", [remove, begin_hand_back, finish_hand_back], ids=lambda act: act.__name__)
def test_a_peer_that_is_not_managed_is_not_touched(clusters, admin, peer_id, act):
    name = peer_id()
    clusters.source.add_peer(name, clusters.key, enabled=False)
    with pytest.raises(UnmanagedPeer):
        act(admin, name, *(["p2"] if act is not remove else []))
    assert clusters.peer(name) == PeerDescription(name, False, clusters.key, {}, True, False)


def test_the_first_peer_of_a_cluster_can_be_created_and_removed(standalone_pair, java_client, unique, clusters):
    """The other way round: this cluster has had no replication znodes before."""
    name = unique("peer")
    with peer_admin(source_of(standalone_pair.peer_cluster.address)) as admin:
        peer = create(admin, name, standalone_pair.source.address.cluster_key, allow_missing=True)
        assert read_peer(admin.session, name) == peer
        remove(admin, name, drop_backlog=True)


def test_a_cluster_that_keeps_its_peers_in_the_file_system_is_refused_and_left_as_it_was(
    cluster_folder, clusters, java_client, unique
):
    in_files = {"hbase.replication.peer.storage.impl": "filesystem"}
    with StandaloneCluster(cluster_folder / unique("files"), in_files, name="files") as cluster:
        with peer_admin(source_of(cluster.address)) as admin, pytest.raises(StorageError, match="are kept elsewhere"):
            create(admin, "p1", clusters.key)
        assert java_client(cluster.address).list_peers() == []


def test_the_command_creates_lists_shows_hands_back_and_removes(clusters, command, peer_id, unique):
    name, new, namespace, table = peer_id(), peer_id(), unique("ns"), clusters.table(unique("t"))
    for client in (clusters.source, clusters.peer_cluster):
        client.create_namespace(namespace)
        client.create_table(f"{namespace}:t1", {"f": GLOBAL, "g": GLOBAL})
    tables = (f"{namespace}:t1=f,g", f"{table}:f")
    status, out, _ = command("peers", "create", name, "--cluster-key", clusters.key, "--table-cfs", "; ".join(tables))
    assert (status, out) == (
        0,
        f"peer {name} to {clusters.key} is managed by Walferry: all edits from now on are queued for it\n"
        f"it gets edits of {', '.join(sorted((f'{namespace}:t1=f,g', f'{table}=f')))}\n",
    )

    status, out, _ = command("peers", "list")
    assert [line.split() for line in out.splitlines() if line.startswith(name)] == [
        [name, "DISABLED", "yes", "1", "1", clusters.key]
    ]

    status, out, _ = command("peers", "show", name)
    assert status == 0
    assert f"peer {name} is DISABLED, managed by Walferry, to {clusters.key}" in out
    assert "edits of " + ", ".join(sorted((f"{namespace}:t1=f,g", f"{table}=f"))) + "\n" in out
    assert "left to ship of closed WALs: 0 bytes\n" in out
    assert f"queue {name} at localhost," in out

    status, out, _ = command("peers", "hand-back", name, "--to", new)
    assert status == 0
    assert f"`walferry peers hand-back {name} --to {new} --finish` has HBase ship" in out
    assert (
        f"is to succeed {name}: `walferry peers hand-back {name} --to {new} --finish` enables it"
        in (command("peers", "show", new)[1])
    )
    assert f"is being handed back to {new}" in command("peers", "show", name)[1]

    assert command("peers", "remove", new)[0] == 1
    assert command("peers", "remove", name)[0] == 1
    status, out, _ = command("peers", "remove", name, "--drop-backlog")
    assert (status, out) == (0, f"peer {name} and its queues are removed\n")


@pytest.mark.parametrize("written", ["clicks:cf1", "clicks.cf1"])
def test_a_table_that_the_source_has_neither_way_is_refused(clusters, command, peer_id, written):
    name = peer_id()
    status, out, err = command("peers", "create", name, "--cluster-key", clusters.key, "--table-cfs", written)
    assert (status, out) == (1, "")
    assert f"'{written}' may be " in err
    assert "but the source has neither" in err
    assert clusters.peer(name) is None


def test_a_refused_command_says_why_in_one_line_and_fails(clusters, command, peer_id):
    name = peer_id()
    clusters.source.add_peer(name, clusters.key)
    status, out, err = command("peers", "take-over", name)
    assert (status, out) == (1, "")
    assert err.startswith(f"walferry: peer {name} is ENABLED")
    assert err.count("\n") == 1


def test_the_command_without_a_source_says_where_to_give_it(command, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_HBASE_SOURCE")
    status, _, err = command("peers", "list")
    assert status == 1
    assert "AIRFLOW_CONN_HBASE_SOURCE is not set" in err
