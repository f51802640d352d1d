"""Lives of tables, as HBase 2 and HBase 1 show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.hbase.rpc.errors import RemoteError
from walferry.hbase.tables.scan import ScanSpec
from walferry.initial_snapshot import lives as module
from walferry.initial_snapshot.lives import lives

Scan = Callable[[str, ScanSpec], Iterator[Any]]


def with_meta(monkeypatch: pytest.MonkeyPatch, scan: Scan) -> None:
    @contextmanager
    def tables(*_: object, **__: object) -> Iterator[Any]:
        yield SimpleNamespace(scan=scan)

    monkeypatch.setattr(module, "Tables", tables)


class Block:
    """Rows of hbase:meta, each with a state that was set at some time."""

    def __init__(self, **set_at: int) -> None:
        self.rows = list(set_at.items())

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, i: int) -> bytes:
        return self.rows[i][0].encode()

    def row(self, i: int) -> bytes:
        name, at = self.rows[i]
        return Cell(name.encode(), b"table", b"state", at, PUT, b"\x08\0", b"").encode()


def test_each_time_that_a_table_s_state_is_set_is_another_life(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, tuple[bytes, ...]]] = []

    def scan(table: str, spec: ScanSpec) -> Iterator[Any]:
        asked.append((table, spec.families))
        yield Block(t=17, u=18)
        yield Block(v=19)

    with_meta(monkeypatch, scan)
    assert lives(session_of(zk, hbase), ["v", "t", "gone"]) == {"v": "19", "t": "17"}
    assert asked == [("hbase:meta", (b"table",))]


def test_on_hbase_1_the_znode_of_the_table_s_state_tells_it(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scan(*_: object) -> Iterator[Any]:
        raise RemoteError("rs:16020", "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException", "no family table", True)

    with_meta(monkeypatch, scan)
    session, seen = session_of(zk, hbase), list[str]()
    zk.create(hbase.nodes.table("ns:t"), b"enabled", makepath=True)
    for change in (
        lambda: zk.set(hbase.nodes.table("ns:t"), b"disabled"), lambda: zk.delete(hbase.nodes.table("ns:t")),
        lambda: zk.create(hbase.nodes.table("ns:t"), b"enabled"),
    ):  # fmt: skip
        seen.append(lives(session, ["ns:t", "gone"]).get("ns:t", "gone"))
        assert lives(session, ["ns:t"]).get("ns:t", "gone") == seen[-1]
        change()
    seen.append(lives(session, ["ns:t"])["ns:t"])
    assert len(set(seen)) == 4
    assert seen[2] == "gone"


def test_other_trouble_with_hbase_meta_is_raised(zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(*_: object) -> Iterator[Any]:
        raise RemoteError("rs:16020", "org.apache.hadoop.hbase.security.AccessDeniedException", "no", True)

    with_meta(monkeypatch, scan)
    with pytest.raises(RemoteError, match="AccessDenied"):
        lives(session_of(zk, hbase), ["t"])
