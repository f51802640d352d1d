"""Queues in HBase 3's table, on real servers of HBase 2.6 that have this table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded.wire import put
from tests.cluster.dead_queues import DeadQueue, record
from tests.cluster.queue_table import QueueTable, of_hbase_3, queue_table
from tests.cluster.walferry_runs import ALL_SINKS, queues, roll, ship, ship_one
from walferry.engine.summary import Status
from walferry.hbase.queue_table import QUEUE_TABLE
from walferry.replication.queues.dead_servers import recovered_queues
from walferry.replication.queues.in_table import count_hfile_refs
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.reading import kept_hfiles
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.shipping.garbage_collection import collect_garbage

SECONDS = 60.0  # for the table to be read


@pytest.fixture
def table(sides) -> Iterator[QueueTable]:
    with queue_table(sides.at) as table:
        yield table
    sides.source.drop_table(QUEUE_TABLE)


@pytest.fixture
def at(sides, table) -> SourceCluster:
    return of_hbase_3(sides.at)


@pytest.fixture
def peer(sides, table, peer) -> str:
    """A managed peer. Its queues begin in the table as ReplicationSourceManager.addSource does: with the newest WALs."""
    for queue in queues(sides.at, peer):
        for wal in queue.wals:
            table.set_offset(f"{peer}-{queue.server}", wal.name.group, f"{wal.name.text}:0")
    return peer


@ALL_SINKS
def test_a_peer_is_shipped_and_the_table_says_how_far(sides, at, table, both, peer) -> None:
    name = both()
    (before,) = table.rows(peer).values()
    sides.source.write(name, [put(f"row{i}", {"f:q": b"one"}) for i in range(50)])
    first = ship_one(at, peer)
    assert (first.status, first.shippedOps > 0) == (Status.DONE, True), first.error
    assert sides.source.compare(name, sides.peer_cluster).same
    ((row, after),) = table.rows(peer).items()
    assert after != before

    sides.source.write(name, [put(f"row{i}", {"f:q": b"two"}) for i in range(50)])
    roll(at, peer)
    second = ship_one(at, peer, roll_first=False, run_id="second")
    assert second.status is Status.DONE
    assert sides.source.compare(name, sides.peer_cluster).same
    (queue,) = queues(at, peer)
    assert [wal.position for wal in queue.wals] == [0], "only the WAL that is being written is left"
    offsets = table.rows(peer)[row]
    assert offsets[queue.wals[0].name.group].endswith(b":-1")
    assert offsets[f"{queue.wals[0].name.group}.rep"].endswith(b":-1"), "HBase may delete the table's own WALs"
    assert not ship(at, peer, run_id="third", roll_first=False), "nothing is shipped twice"


@pytest.mark.capability("queues of HBase 3")
def test_a_dead_server_s_queue_is_drained_while_hbase_moves_it(sides, at, table, both, peer, unique) -> None:
    name = both()
    recording = record(sides.source, name, 60)
    sides.peer_cluster.empty_table(name)
    (server,) = sides.source.region_servers()
    dead = DeadQueue(sides.at, sides.source, peer)
    wals = [dead.add(recording.content) for _ in range(3)]
    table.set_offset(f"{peer}-{dead.server}", dead.server, ":0")  # as the Master does for a dead server without a row
    ship(at, peer, run_id="live", groups=[wal.name.group for queue in queues(at, peer) if queue.live for wal in queue.wals[:1]])

    with open_session(at) as session:
        (found,) = [queue for queue in recovered_queues(session, peer) if dead.server in queue.ref]
    assert found.dead_server == dead.server
    assert found.wals == tuple(wal.name for wal in wals)
    (queue,) = [queue for queue in table.queues(peer) if queue.server == dead.server]
    table.set_offset(queue.row, dead.group, f"{wals[1].name}:0")  # the first one is shipped, HBase says
    (queue,) = [queue for queue in table.queues(peer) if queue.server == dead.server]
    table.claim(queue, server)

    (summary,) = ship(at, peer, run_id="dead", groups=[dead.group], roll_first=False)
    assert summary.status is Status.DONE, summary.error
    assert summary.shippedOps == 2 * len(recording.puts), "two of three WALs"
    assert sides.peer_cluster.count_rows(name) == 60
    assert dead.server not in str(table.rows(peer)), "the row of a dead server goes with its last WAL"


def test_a_row_that_was_finished_before_hbase_claimed_it_is_collected(sides, at, table, both, peer) -> None:
    name = both()
    recording = record(sides.source, name, 10)
    (server,) = sides.source.region_servers()
    dead = DeadQueue(sides.at, sides.source, peer)
    wal = dead.add(recording.content)
    table.set_offset(f"{peer}-{dead.server}", dead.group, f"{wal.name}:0")
    (summary,) = ship(at, peer, run_id="dead", groups=[dead.group], roll_first=False)
    assert summary.status is Status.DONE, summary.error
    offsets = table.rows(peer)[f"{peer}-{dead.server}"]
    assert offsets[dead.group] == f"{wal.name}:-1".encode(), "HBase may not have finished with this server"
    with open_session(at) as session:
        collect_garbage(session, peer)
        assert f"{peer}-{dead.server}" in table.rows(peer)
        (queue,) = [queue for queue in table.queues(peer) if queue.server == dead.server]
        table.claim(queue, server)
        collect_garbage(session, peer)
    assert dead.server not in str(table.rows(peer))


def test_a_wal_that_an_offset_names_and_that_is_gone_stops_its_group_by_name(sides, at, table, peer) -> None:
    dead = DeadQueue(sides.at, sides.source, peer)
    wal = dead.add(None)
    table.set_offset(f"{peer}-{dead.server}", dead.group, f"{wal.name}:100")
    (summary,) = ship(at, peer, run_id="dead", groups=[dead.group], roll_first=False)
    assert summary.status is Status.FAILED
    assert wal.name in summary.error
    assert table.rows(peer)[f"{peer}-{dead.server}"][dead.group] == f"{wal.name}:100".encode()


def test_an_offset_that_hbase_has_put_back_is_shipped_again_and_no_more(sides, at, table, both, peer) -> None:
    name = both()
    sides.source.write(name, [put(f"row{i}", {"f:q": b"one"}) for i in range(50)])
    first = ship_one(at, peer)
    assert first.shippedOps == 50
    ((row, offsets),) = table.rows(peer).items()
    (group,) = [each for each in offsets if not each.endswith(".rep")]
    wal = offsets[group].decode().rpartition(":")[0]
    table.set_offset(row, group, f"{wal}:0")
    again = ship_one(at, peer, roll_first=False, run_id="again")
    assert (again.status, again.shippedOps) == (Status.DONE, 50)
    assert table.rows(peer)[row][group] == f"{wal}:-1".encode()


def test_references_to_bulk_loaded_files_are_counted_and_let_go(sides, at, table, peer) -> None:
    dead = DeadQueue(sides.at, sides.source, peer)
    table.keep_hfiles(peer, ["one", "two", "three"])
    table.keep_hfiles(f"{peer}9", ["one"])
    with open_session(at) as session:
        assert count_hfile_refs(session, SECONDS) == {peer: 3, f"{peer}9": 1}
        assert kept_hfiles(session, peer, ["two", "gone already"]) == [f"hbase:replication/{peer}/hfileref:two"]
        with acquire(session, peer, dead.group, "a test") as lease:
            lease.remove_hfile_refs(["one", "three", "gone already"])
        assert count_hfile_refs(session, SECONDS) == {peer: 1, f"{peer}9": 1}
