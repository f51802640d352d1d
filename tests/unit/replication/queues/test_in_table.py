"""Which WALs are in a queue of HBase 3, whose row does not name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.hbase.files import listing
from walferry.hbase.files.store import WalStore
from walferry.hbase.files.systems import list_entries
from walferry.hbase.names import QueueId
from walferry.replication.queues import in_table
from walferry.replication.queues.in_table import QueueRow, read_queues

SERVER, DEAD = "rs1,16020,1700000000001", "rs2,16020,1700000000002"


def wal(number: int, server: str = SERVER, group: str = "") -> str:
    return f"{server.replace(',', '%2C')}{group}.{1700000000100 + number}"


@pytest.fixture
def store(tmp_path: Path) -> WalStore:
    (tmp_path / "WALs" / SERVER).mkdir(parents=True)
    (tmp_path / "oldWALs").mkdir()
    return WalStore(f"file://{tmp_path}")


@pytest.fixture
def queued(store: WalStore, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`queued(rows)` → names of the WALs in each queue of peer p, by row."""

    @contextmanager
    def tables(*_: object) -> Iterator[None]:
        yield None

    def read(*rows: QueueRow) -> dict[str, list[str]]:
        monkeypatch.setattr(in_table, "queue_tables", tables)
        monkeypatch.setattr(in_table, "read_rows", lambda *_: list(rows))
        monkeypatch.setattr(in_table, "live_servers", lambda *_: [SERVER])
        session: Any = SimpleNamespace(zk=None, nodes=None, store=store)
        found = read_queues(session, "p")
        return {queue.path.removeprefix("hbase:replication/"): [wal.name.text for wal in queue.wals] for queue in found}

    return read


def put(root: Path, folder: str, *names: str) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        (root / folder / name).write_bytes(b"")


def test_no_wal_counts_before_an_older_one_that_the_listing_may_have_missed(
    tmp_path: Path, queued: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HBase archives a WAL once all of it is flushed, also before an older one."""
    put(tmp_path, f"WALs/{SERVER}", wal(1))
    put(tmp_path, "oldWALs", wal(0))

    def and_rolls(url: str) -> Any:
        if url.endswith("oldWALs"):
            put(tmp_path, f"WALs/{SERVER}", wal(2), wal(5))
            put(tmp_path, "oldWALs", wal(3), wal(4))
        return list_entries(url)

    monkeypatch.setattr(listing, "list_entries", and_rolls)
    assert queued() == {f"p-{SERVER}": [wal(0), wal(1)]}, "with 3 and 4, an offset behind them would pass 2"


def test_of_a_live_server_whose_folder_shows_no_wal_of_a_group_none_counts(tmp_path: Path, queued: Any) -> None:
    put(tmp_path, f"WALs/{SERVER}", wal(1))
    put(tmp_path, "oldWALs", wal(0), wal(0, group=".regiongroup-1"))
    assert queued() == {f"p-{SERVER}": [wal(0), wal(1)]}


@pytest.mark.parametrize("folder", ["oldWALs", f"oldWALs/{DEAD}", f"WALs/{DEAD}-splitting", f"WALs/{DEAD}"])
def test_of_a_dead_server_all_wals_count_wherever_they_lie(tmp_path: Path, queued: Any, folder: str) -> None:
    put(tmp_path, f"WALs/{SERVER}", wal(1))
    put(tmp_path, folder, wal(1, DEAD), wal(2, DEAD))
    row = QueueRow(SERVER, QueueId("p", (DEAD,)), {})
    assert queued(row)[row.row] == [wal(1, DEAD), wal(2, DEAD)]


def test_wals_of_the_table_itself_and_of_hbase_meta_are_in_no_queue(tmp_path: Path, queued: Any) -> None:
    own = (".rep", f".{SERVER.replace(',', '%2C')}.rep.regiongroup-0")
    put(tmp_path, f"WALs/{SERVER}", wal(1), f"{wal(2)}.meta", *(wal(1, group=group) for group in own))
    assert queued() == {f"p-{SERVER}": [wal(1)]}


def test_a_user_s_namespace_called_rep_is_not_the_table_s_own(tmp_path: Path, queued: Any) -> None:
    of_namespace = wal(1, group=f".{SERVER.replace(',', '%2C')}.rep")
    put(tmp_path, f"WALs/{SERVER}", of_namespace)
    assert queued() == {f"p-{SERVER}": [of_namespace]}


def test_two_rows_of_one_server_are_one_queue_with_what_either_has_reached(tmp_path: Path, queued: Any) -> None:
    put(tmp_path, f"WALs/{SERVER}", wal(1))
    put(tmp_path, "oldWALs", wal(1, DEAD), wal(2, DEAD))
    group = DEAD.replace(",", "%2C")
    claimed = QueueRow(SERVER, QueueId("p", (DEAD,)), {group: f"{wal(1, DEAD)}:5".encode()})
    stray = QueueRow(DEAD, QueueId("p"), {group: f"{wal(1, DEAD)}:-1".encode()})
    assert queued(claimed, stray) == {f"p-{SERVER}": [wal(1)], claimed.row: [wal(2, DEAD)]}
