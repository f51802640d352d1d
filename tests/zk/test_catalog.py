"""The catalog: hbase:meta and the states of tables, with rows and znodes that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, prefixed
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.cluster import draining_servers
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import ConnectionFailed
from walferry.hbase.tables.rows import Rows, index_rows
from walferry.hbase.values import PBUF
from walferry.master import catalog
from walferry.master.catalog import read_catalog, table_of
from walferry.master.znodes import META_ENCODED_NAME

LIVE = ServerName.parse(SERVER)
GONE = ServerName("rs-9.example.org", 16020, 9)


def row(n: int, table: str = "t", **fields: Any) -> tuple[bytes, list[bytes]]:
    """Return a region's row: its name and its cells."""
    name = f"{table},,1700000000000.{n:032x}.".encode()
    namespace, _, qualifier = table.rpartition(":")
    info = pb.RegionInfo(
        region_id=1, table_name=pb.TableName(namespace=(namespace or "default").encode(), qualifier=qualifier.encode()), **fields
    )
    values = {
        b"regioninfo": PBUF + info.SerializeToString(),
        b"server": f"{LIVE.host}:{LIVE.port}".encode(),
        b"serverstartcode": LIVE.start_code.to_bytes(8),
    }
    return name, [Cell(name, b"info", column, 1, PUT, value).encode() for column, value in values.items()]


def broken(n: int) -> tuple[bytes, list[bytes]]:
    name = f"t,,1700000000000.{n:032x}.".encode()
    return name, [Cell(name, b"info", b"regioninfo", 1, PUT, PBUF + b"\xff\xff").encode()]


class Meta:
    """hbase:meta with some rows; `error` is what a scan of it raises."""

    def __init__(self, rows: list[tuple[bytes, list[bytes]]], error: Exception | None = None) -> None:
        self.rows, self.error, self.scans = rows, error, 0

    def __call__(self, *_: object, **__: object) -> Meta:
        return self

    def __enter__(self) -> Meta:
        return self

    def __exit__(self, *_: object) -> None: ...

    def scan(self, *_: object) -> Iterator[Rows]:
        self.scans += 1
        if self.error is not None:
            raise self.error
        cells = [cell for _, each in self.rows for cell in each]
        yield index_rows(b"".join(cells), len(cells))


@pytest.fixture
def with_meta(hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(rows: list[tuple[bytes, list[bytes]]], error: Exception | None = None, server: ServerName = LIVE) -> Meta:
        meta = Meta(rows, error)
        monkeypatch.setattr(catalog, "Tables", meta)
        name = pb.ServerName(host_name=server.host, port=server.port, start_code=server.start_code)
        hbase.zk.create(hbase.nodes.meta_server, prefixed(PBUF + pb.MetaRegionServer(server=name).SerializeToString()))
        return meta

    return make


def set_state(hbase: HBaseZNodes, table: str, value: bytes) -> None:
    hbase.zk.ensure_path(hbase.nodes.table(table))
    hbase.zk.set(hbase.nodes.table(table), prefixed(value))


def state(name: str) -> bytes:
    return PBUF + pb.Table(state=name).SerializeToString()


def test_one_scan_tells_of_all_regions_that_may_be_open(hbase: HBaseZNodes, with_meta: Any) -> None:
    meta = with_meta([row(1), row(2, offline=True, split=True), row(3, replica_id=1), broken(4), row(5, "ns:u")])
    set_state(hbase, "ns:u", state("DISABLED"))
    read = read_catalog(hbase.zk, hbase.nodes)
    assert read.complete
    assert {name[-2:]: (known.server, known.wanted) for name, known in read.regions.items()} == {
        META_ENCODED_NAME[-2:]: (LIVE, True),
        "01": (LIVE, True),
        "05": (LIVE, False),
    }
    assert [table_of(known.info) for known in read.regions.values()] == ["hbase:meta", "t", "ns:u"]
    assert len(read.broken) == 1
    assert meta.scans == 1


@pytest.mark.parametrize(("name", "wanted"), [("ENABLED", True), ("ENABLING", True), ("DISABLING", False), ("DISABLED", False)])
def test_the_table_s_state_says_whether_its_regions_are_to_be_open(
    hbase: HBaseZNodes, with_meta: Any, name: str, wanted: bool
) -> None:
    with_meta([row(1)])
    set_state(hbase, "t", state(name))
    assert read_catalog(hbase.zk, hbase.nodes).regions[f"{1:032x}"].wanted is wanted


def mismatched(name: bytes) -> tuple[bytes, list[bytes]]:
    """Return a row whose key is not the name of the region that it describes."""
    info = pb.RegionInfo(region_id=1, table_name=pb.TableName(namespace=b"default", qualifier=b"t"))
    return name, [Cell(name, b"info", b"regioninfo", 1, PUT, PBUF + info.SerializeToString()).encode()]


@pytest.mark.parametrize("name", [b"t,,1", b"t,/,1.a/../b.", b"t,,1.\x00.", b"t,,1.."])
def test_a_row_whose_key_is_not_a_region_s_name_stops_that_region_only(hbase: HBaseZNodes, with_meta: Any, name: bytes) -> None:
    with_meta([row(1), mismatched(name)])
    read = read_catalog(hbase.zk, hbase.nodes)
    assert (len(read.regions), len(read.broken), read.complete) == (2, 1, True)
    assert "is not the name of a region" in str(read.broken[0])


def test_servers_that_drain_are_known(hbase: HBaseZNodes) -> None:
    assert draining_servers(hbase.zk, hbase.nodes) == frozenset()
    for name in (SERVER, "garbage"):
        hbase.zk.ensure_path(f"{hbase.nodes.draining}/{name}")
    assert draining_servers(hbase.zk, hbase.nodes) == {LIVE}


def test_a_state_that_cannot_be_read_stops_that_table_only(hbase: HBaseZNodes, with_meta: Any) -> None:
    with_meta([row(1), row(2, "u")])
    set_state(hbase, "t", b"garbage")
    read = read_catalog(hbase.zk, hbase.nodes)
    assert [read.regions[f"{n:032x}"].wanted for n in (1, 2)] == [False, True]
    assert len(read.broken) == 1


def test_without_a_live_server_for_hbase_meta_only_its_own_region_is_known(hbase: HBaseZNodes, with_meta: Any) -> None:
    assert read_catalog(hbase.zk, hbase.nodes).regions[META_ENCODED_NAME].server is None
    meta = with_meta([row(1)], server=GONE)
    read = read_catalog(hbase.zk, hbase.nodes)
    assert (list(read.regions), read.complete, meta.scans) == ([META_ENCODED_NAME], False, 0)
    assert read.regions[META_ENCODED_NAME].server == GONE


def test_a_scan_that_fails_leaves_only_hbase_meta_s_own_region(hbase: HBaseZNodes, with_meta: Any) -> None:
    with_meta([row(1)], ConnectionFailed("rs", "gone"))
    read = read_catalog(hbase.zk, hbase.nodes)
    assert (list(read.regions), read.complete, len(read.broken)) == ([META_ENCODED_NAME], False, 1)
