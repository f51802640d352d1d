"""The regions of rows, by hbase:meta's data, and when these are read again."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.exceptions import ConnectionLoss

from walferry.base.zk.errors import ConnectError
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import ConnectionFailed
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable, ScanGivenUp
from walferry.hbase.tables.regions import Region
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.hbase import locations as module
from walferry.replication.sinks.hbase.locations import NOWHERE, Locations, LocationsUnknown, RegionMap

SERVER = ServerName("h", 1, 1)
keys = st.binary(max_size=3)


def region(start: bytes, end: bytes) -> Region:
    return Region(b"t,%s,1." % start, start, end, SERVER)


def found(regions: list[Region], rows: list[bytes]) -> list[int]:
    buf = np.frombuffer(b"#" + b"".join(rows) + b"#", np.uint8)
    lengths = np.array([len(row) for row in rows], np.int64)
    return RegionMap.of(b"t", regions).find(buf, 1 + np.cumsum(lengths) - lengths, lengths).tolist()


@settings(max_examples=5 * settings().max_examples)
@given(st.sets(keys.filter(bool)), st.lists(keys), st.sets(st.integers(0, 20)))
def test_a_row_belongs_to_the_region_whose_keys_are_around_it(borders, rows, closed):
    starts = [b"", *sorted(borders)]
    regions = [region(a, b) for a, b in zip(starts, [*starts[1:], b""], strict=True)]
    is_open = [i for i in range(len(regions)) if i not in closed] or [0]
    expected = [bisect_right(starts, row) - 1 for row in rows]
    expected = [is_open.index(i) if i in is_open else NOWHERE for i in expected]
    assert found([regions[i] for i in is_open], rows) == expected


def test_bytes_are_compared_without_a_sign():
    assert found([region(b"", b"\x80"), region(b"\x80", b"")], [b"\x7f\xff", b"\x80", b"\xff"]) == [0, 1, 1]


class Meta:
    """Counts how often the regions were read."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.opened = self.closed = self.interrupted = 0
        self.error: Exception | None = None
        self.answers = threading.Event()
        self.answers.set()

    def regions(self, table: str, seconds: Callable[[], float]) -> list[Region]:
        self.reads.append(table)
        while not self.answers.wait(0.01):
            seconds()
        if self.error:
            raise self.error
        return [region(b"", b"")]

    def close(self) -> None:
        self.closed += 1

    def interrupt(self) -> None:
        self.interrupted += 1


def locations(meta: Meta, clock: Callable[[], float] = time.monotonic) -> Locations:
    def open_tables() -> Any:
        meta.opened += 1
        return meta

    return Locations(open_tables, clock)


def test_a_table_is_read_once_until_it_turns_out_wrong():
    meta = Meta()
    where = locations(meta)
    first = where.of(b"ns:t")
    assert where.of(b"ns:t") is first
    assert where.of(b"u") is not first
    second = where.of(b"ns:t", first)
    assert second is not first
    assert where.of(b"ns:t") is second
    assert meta.reads == ["ns:t", "u", "ns:t"]
    assert meta.opened == 1


def test_senders_that_find_the_same_map_wrong_read_it_again_once():
    meta = Meta()
    where = locations(meta)
    first, barrier, maps = where.of(b"t"), threading.Barrier(8), []

    def sender() -> None:
        barrier.wait()
        maps.append(where.of(b"t", first))

    threads = [threading.Thread(target=sender) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(meta.reads) == 2
    assert {id(m) for m in maps} == {id(where.of(b"t"))}


def test_a_table_that_could_not_be_read_again_is_read_by_the_next_who_asks():
    meta = Meta()
    where = locations(meta)
    first = where.of(b"t")
    meta.error = MissingTable("t", "zk:2181")
    with pytest.raises(MissingTable):
        where.of(b"t", first)
    meta.error = None
    assert where.of(b"t", first) is not first


def test_what_prevents_a_look_up_is_told_in_one_error_with_the_table():
    meta = Meta()
    try:
        raise ScanGivenUp("hbase:meta", b"ns:t,,", 0.0, "refused") from ConnectionFailed("rs:1", "refused")
    except ScanGivenUp as error:
        meta.error = error
    with pytest.raises(LocationsUnknown, match=r"of table ns:t cannot .* hbase:meta: connection to rs:1 failed: refused$"):
        locations(meta).of(b"ns:t")
    meta.error = ConnectError("ZooKeeper of the peer cluster does not answer")
    meta.error.__cause__ = ConnectionLoss()  # which has no words of its own
    with pytest.raises(LocationsUnknown, match="hbase:meta: ZooKeeper of the peer cluster does not answer"):
        locations(meta).of(b"ns:t")


def test_nothing_is_opened_or_closed_without_need():
    meta = Meta()
    where = locations(meta)
    where.interrupt()
    where.of(b"t")
    where.interrupt()
    where.close()
    assert (meta.opened, meta.closed, meta.interrupted) == (1, 1, 2)
    unused = Meta()
    locations(unused).close()
    assert (unused.opened, unused.closed, unused.interrupted) == (0, 0, 0)


def begun(pool: ThreadPoolExecutor, meta: Meta, where: Locations, *arguments: Any) -> Future[RegionMap]:
    """A reading that hbase:meta does not answer yet."""
    meta.answers.clear()
    reads = len(meta.reads)
    reading = pool.submit(where.of, *arguments)
    while len(meta.reads) == reads:
        time.sleep(0.001)
    return reading


@pytest.fixture
def hanging() -> Any:
    """An hbase:meta that hangs, Locations, a pool, and a reading of table t that is under way."""
    with ExitStack() as stack:
        meta, pool = Meta(), stack.enter_context(ThreadPoolExecutor())
        stack.callback(meta.answers.set)
        where = locations(meta)
        yield meta, where, pool, begun(pool, meta, where, b"t")


def test_all_that_wait_for_a_reading_fail_with_it(hanging):
    meta, where, pool, first = hanging
    waited = threading.Semaphore(0)

    def waiting() -> float:
        waited.release()
        return 60.0

    waiters = [pool.submit(where.of, table, None, waiting) for table in (b"t", b"t", b"u")]
    for _ in waiters * 2:  # each has looked at the map and at its time
        waited.acquire()
    meta.error = ScanGivenUp("hbase:meta", b"t,,", 0.0, "nothing came")
    meta.answers.set()
    for reading, table in zip([first, *waiters], "tttu", strict=True):
        with pytest.raises(LocationsUnknown, match=f"of table {table} cannot .* nothing came"):
            reading.result(30)
    assert meta.reads == ["t"]
    meta.error = None
    assert where.of(b"u").regions  # who comes later reads again


def test_what_only_one_table_cannot_tell_does_not_fail_others(hanging):
    meta, where, pool, first = hanging
    other = pool.submit(where.of, b"u")
    meta.error = RegionUnavailable("a row of t cannot be read")
    meta.answers.set()
    with pytest.raises(LocationsUnknown):
        first.result(30)
    with pytest.raises(LocationsUnknown):
        other.result(30)
    assert meta.reads == ["t", "u"]


def test_a_sender_waits_for_another_s_reading_no_longer_than_it_can(hanging):
    _, where, _, _ = hanging
    with pytest.raises(LocationsUnknown, match="another look-up has not ended in time"):
        where.of(b"t", None, lambda: 0.0)


def test_a_sender_that_is_told_to_stop_neither_waits_nor_reads(hanging):
    meta, where, _, _ = hanging

    def stopped() -> float:
        raise Stopped("asked to stop")

    with pytest.raises(Stopped):
        where.of(b"t", None, stopped)
    assert meta.reads == ["t"]


def test_a_reading_that_goes_on_and_on_ends_with_the_sender_s_time():
    meta, left = Meta(), iter([5.0, 5.0, 5.0, 0.0])
    meta.answers.clear()
    with pytest.raises(LocationsUnknown, match="has not named all of them in time"):
        locations(meta).of(b"t", None, lambda: next(left))
    assert meta.closed == 1  # the next reading connects anew


def test_a_reading_has_an_end_however_much_time_the_sender_has(monkeypatch):
    monkeypatch.setattr(module, "LONGEST_READING_SECONDS", 0.05)
    meta = Meta()
    meta.answers.clear()
    with pytest.raises(LocationsUnknown, match="has not named all of them in time"):
        locations(meta).of(b"t")


def test_what_is_known_is_told_while_something_else_is_read():
    meta = Meta()
    where = locations(meta)
    known = where.of(b"known")
    with ThreadPoolExecutor() as pool:
        reading = begun(pool, meta, where, b"t")
        assert where.of(b"known") is known
        meta.answers.set()
        reading.result(30)


def test_closing_does_not_wait_for_a_reading_which_closes_the_connections_when_it_ends(hanging, monkeypatch):
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 0.01)
    meta, where, _, reading = hanging
    where.close()
    assert (meta.interrupted, meta.closed, reading.done()) == (1, 0, False)
    meta.answers.set()
    reading.result(30)
    assert meta.closed == 1
    with pytest.raises(Stopped):
        where.of(b"u")
    assert meta.reads == ["t"]


def test_a_map_that_was_just_read_again_is_not_read_once_more_within_a_second():
    meta, now = Meta(), [1000.0]
    where = locations(meta, lambda: now[0])
    again = where.of(b"t", where.of(b"t"))
    now[0] += 0.9
    assert where.of(b"t", again) is again
    now[0] += 0.2
    assert where.of(b"t", again) is not again
    assert len(meta.reads) == 3


def test_the_servers_are_those_that_the_maps_name_now():
    meta, servers = Meta(), [ServerName("h", 1, i) for i in range(3)]
    where = locations(meta)
    reported = iter(servers)
    meta.regions = lambda table, seconds: [Region(b"t,,1.", b"", b"", next(reported)), Region(b"t,m,1.", b"m", b"", None)]
    first = where.of(b"t")
    where.of(b"u")
    assert where.servers == set(servers[:2])
    where.of(b"t", first)
    assert where.servers == set(servers[1:])
