"""Peers that are added, reconfigured and removed while batches run, and a peer's bandwidth."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from embedded.client import GLOBAL, even_splits
from embedded.wire import put
from tests.cluster.peer_changes import only, reconfigure, table_of
from tests.cluster.spark_runs import run
from tests.cluster.walferry_runs import await_progress, plan, positions, roll, ship_one
from tests.sessions import session_of
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import children, connected
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.source.peers import read_peer

BANDWIDTH = 100_000


def with_bandwidth(bytes_per_second: int):
    def change(config: pb.ReplicationPeer) -> None:
        config.bandwidth = bytes_per_second

    return change


class EndlessBatches:
    """Batches of one peer, one after the other, until the block ends. Each must be done."""

    def __init__(self, at, peer: str) -> None:
        self._at, self._peer = at, peer
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._count: Future[int] | None = None

    def _run(self) -> int:
        count = 0
        while not self._stop.is_set():
            summary = ship_one(self._at, self._peer, run_id=f"steady{count}")
            assert summary.status is Status.DONE, summary.error
            count += 1
        return count

    def __enter__(self) -> EndlessBatches:
        self._count = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()

    @property
    def count(self) -> int:
        assert self._count
        return self._count.result()


def test_peers_come_change_and_go_while_another_one_is_shipped(sides, both, peer, managed_peer):
    loaded, first, second = (both({"f": GLOBAL}) for _ in range(3))
    source = sides.source_cluster.address
    load = sides.source.start_load(loaded)
    batches = EndlessBatches(sides.at, peer)
    try:
        with batches:
            new = managed_peer(source, sides.peer_hbase.address)
            reconfigure(source, new, only(table_of(first)))
            for table in (first, second):
                sides.source.write(table, [put("1", {"f:q": b"1"})])
            batch(sides.at, new, "1")
            reconfigure(source, new, only(table_of(first), table_of(second)))
            for table in (first, second):
                sides.source.write(table, [put("2", {"f:q": b"1"})])
            summary = batch(sides.at, new, "2")
            assert summary.logEditsFiltered.get("not_in_peer", 0) > 0

            # The steady peer gets all tables, so the slow peer's own queue shows that it is removed in mid-batch.
            reconfigure(source, new, with_bandwidth(20_000))
            sides.source.put_many(second, 1000, ["f:a"], value_bytes=200)
            roll(sides.at, new)
            before = positions(sides.at, new)
            with ThreadPoolExecutor(1) as pool:
                slow = pool.submit(ship_one, sides.at, new, run_id="3", roll_first=False)
                await_progress(sides.at, new, before)
                assert not slow.done()
                sides.source.remove_peer(new)
                removed = slow.result(60)
            assert removed.status is Status.FAILED
            assert removed.error.startswith(f"peer {new}: ")
            assert "there is no " in removed.error
            with connected(sides.at.quorum) as zk:
                assert children(zk, f"/walferry/shipping/{sides.at.znode_parent.replace('/', '%2F')}/{new}") in (None, [])
    finally:
        written = load.stop()
    assert batches.count >= 3
    assert (written.failed, written.acknowledged > 0) == (0, True)
    batch(sides.at, peer, "last")
    for table in (loaded, first, second):
        assert sides.source.compare(table, sides.peer_cluster).same
    assert not plan(sides.at, peer).to_ship


def batch(at, peer: str, run_id: str) -> GroupSummary:
    summary = ship_one(at, peer, run_id=run_id)
    assert summary.status is Status.DONE, summary.error
    return summary


def test_a_changed_choice_of_tables_holds_from_the_next_batch_on(sides, both, peer):
    """The choice also applies to edits from before the change that are not shipped yet, as with HBase's sources."""
    first, second = both({"f": GLOBAL}), both({"f": GLOBAL})
    address = sides.source_cluster.address
    for table in (first, second):
        sides.source.write(table, [put("1", {"f:q": b"1"})])
    reconfigure(address, peer, only(table_of(first)))
    batch(sides.at, peer, "1")
    for table in (first, second):
        sides.source.write(table, [put("2", {"f:q": b"1"})])
    reconfigure(address, peer, only(table_of(second)))
    batch(sides.at, peer, "2")
    assert {cell.row for cell in sides.peer_cluster.scan_all(first)} == {b"1"}
    assert {cell.row for cell in sides.peer_cluster.scan_all(second)} == {b"2"}


def test_the_tasks_of_a_job_together_keep_to_the_bandwidth(members, unique, lead, tmp_path):
    source, peer_cluster = members[:2]
    table = unique("t")
    for member in (source, peer_cluster):
        member.client.create_table(table, {"f": GLOBAL}, even_splits(4))
    edge = lead(source, peer_cluster)
    reconfigure(source.cluster.address, edge.peer, with_bandwidth(BANDWIDTH))
    with connected(source.at.quorum) as zk:
        assert read_peer(session_of(zk, source.at), edge.peer).bandwidth == BANDWIDTH
    source.client.put_many(table, 4000, ["f:a"], value_bytes=200, batch=20)
    roll(source.at, edge.peer)

    done = run(source.at, edge.peer, "slow", tmp_path)
    assert done.code == 0, done.output
    summaries = done.summaries
    shipped = sum(s["shippedBytes"] for s in summaries)
    assert len([s for s in summaries if s["shippedBytes"] > 100_000]) == 2, "two groups have edits"
    assert shipped > 900_000
    slowest = max(s["seconds"] for s in summaries)
    print(f"{shipped:,} bytes of cells in {slowest} s at {BANDWIDTH:,} bytes a second")
    assert slowest >= shipped / BANDWIDTH  # how close it comes to that is a matter of the unit test, whose clock no load slows
    assert peer_cluster.client.compare(table, source.client).same
