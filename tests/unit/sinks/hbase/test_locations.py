"""Where rows belong, by the regions that hbase:meta tells of, and when it is read again."""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walferry.names import ServerName
from walferry.rpc.errors import ConnectionFailed
from walferry.sinks.hbase.locations import NOWHERE, Locations, LocationsUnknown, RegionMap
from walferry.tables.errors import MissingTable, ScanGivenUp
from walferry.tables.regions import Region
from walferry.zk.errors import ConnectError

SERVER = ServerName("h", 1, 1)
keys = st.binary(max_size=3)


def region(start: bytes, end: bytes) -> Region:
    return Region(b"t,%s,1." % start, start, end, SERVER)


def found(regions: list[Region], rows: list[bytes]) -> list[int]:
    buf = np.frombuffer(b"#" + b"".join(rows) + b"#", np.uint8)
    lengths = np.array([len(row) for row in rows], np.int64)
    return RegionMap.of(b"t", regions).find(buf, 1 + np.cumsum(lengths) - lengths, lengths).tolist()


@settings(max_examples=500, deadline=None)
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

    def regions(self, table: str) -> list[Region]:
        self.reads.append(table)
        if self.error:
            raise self.error
        return [region(b"", b"")]

    def close(self) -> None:
        self.closed += 1

    def interrupt(self) -> None:
        self.interrupted += 1


def locations(meta: Meta) -> Locations:
    def open_tables() -> Any:
        meta.opened += 1
        return meta

    return Locations(open_tables)


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


def test_lanes_that_find_the_same_map_wrong_read_it_again_once():
    meta = Meta()
    where = locations(meta)
    first, barrier, maps = where.of(b"t"), threading.Barrier(8), []

    def lane() -> None:
        barrier.wait()
        maps.append(where.of(b"t", first))

    threads = [threading.Thread(target=lane) for _ in range(8)]
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
    meta.error = ConnectError("ZooKeeper of the slave does not answer")
    with pytest.raises(LocationsUnknown, match="hbase:meta: ZooKeeper of the slave does not answer"):
        locations(meta).of(b"ns:t")


def test_nothing_is_opened_or_closed_without_need():
    meta = Meta()
    where = locations(meta)
    where.interrupt()
    where.close()
    assert (meta.opened, meta.closed, meta.interrupted) == (0, 0, 0)
    where.of(b"t")
    where.interrupt()
    where.close()
    assert (meta.opened, meta.closed, meta.interrupted) == (1, 1, 1)
