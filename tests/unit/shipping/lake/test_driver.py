"""What the driver of a batch for a lake believes: positions, tables' names, and the answers of tasks."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.unit.replication.sinks.iceberg.lake import catalog_in, changes, entry, files_of, put
from walferry.hbase.errors import PositionError
from walferry.hbase.names import WalName, parse_wal_name
from walferry.replication.sinks.iceberg.commits import POSITIONS
from walferry.replication.sinks.iceberg.tables import table_of
from walferry.shipping.lake import driver
from walferry.shipping.lake.catalog import Lake, identifier
from walferry.shipping.lake.reading import LakeGroup
from walferry.shipping.lake.tables import LakeTables

GROUP = "rs1%2C16020%2C1"


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_in(tmp_path)


def lake_of(catalog: SqlCatalog) -> Lake:
    return Lake(catalog, UUID(int=2), "feed", UUID(int=1))


def tables(**found: Any) -> LakeTables:
    return LakeTables(None, found)  # type: ignore[arg-type]


def job(wals: int = 2) -> Any:
    return SimpleNamespace(job=SimpleNamespace(group=GROUP), wals=(None,) * wals)


def group(*wals: tuple[str, int]) -> Any:
    queued = [SimpleNamespace(queued=SimpleNamespace(name=SimpleNamespace(text=name), position=at)) for name, at in wals]
    return SimpleNamespace(found=SimpleNamespace(wals=queued), job=SimpleNamespace(group=GROUP))


def test_a_table_s_changes_are_in_the_namespace_of_the_table() -> None:
    assert identifier("orders") == ("default", "orders_changes")
    assert identifier("shop:items") == ("shop", "items_changes")


def test_an_answer_that_may_be_committed(catalog: SqlCatalog) -> None:
    table = table_of(catalog, ("default", "t_changes"))
    files = files_of(table, *changes([entry(put(b"r"))]))
    assert driver._why_wrong(job(), LakeGroup(GROUP, wals=2, files=files), tables(t=table)) == ""
    assert driver._why_wrong(job(), LakeGroup(GROUP, unknown=["ns:new"]), tables(t=table)) == ""


@pytest.mark.parametrize("folder", ["elsewhere", "elsewhere/"])
def test_a_table_s_files_may_be_elsewhere(catalog: SqlCatalog, tmp_path: Path, folder: str) -> None:
    table = table_of(catalog, ("default", "t_changes"))
    with table.transaction() as transaction:
        transaction.set_properties({"write.data.path": f"file://{tmp_path}/{folder}"})
    files = files_of(table, *changes([entry(put(b"r"))]))
    assert files[0].path.startswith(f"file://{tmp_path}/elsewhere/")
    assert driver._why_wrong(job(), LakeGroup(GROUP, wals=2, files=files), tables(t=table)) == ""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (LakeGroup("other"), "it is one for other"),
        (LakeGroup(GROUP, unknown=["../x"]), "is no table to be made"),
        (LakeGroup(GROUP, unknown=["t"]), "is no table to be made"),
        (LakeGroup(GROUP, wals=3), "it has read 3 of 2 WALs"),
        (LakeGroup(GROUP, wals=-1), "it has read -1 of 2 WALs"),
        (LakeGroup(GROUP, offset=-5), "up to -5"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(catalog: SqlCatalog, answer: LakeGroup, why: str) -> None:
    assert why in driver._why_wrong(job(), answer, tables(t=table_of(catalog, ("default", "t_changes"))))


def test_a_file_outside_of_its_table_s_folder_is_refused(catalog: SqlCatalog) -> None:
    one, other = (table_of(catalog, ("default", name)) for name in ("t_changes", "u_changes"))
    files = files_of(one, *changes([entry(put(b"r"))]))
    assert "is no file of table t" in driver._why_wrong(job(), LakeGroup(GROUP, files=files), tables(t=other))
    assert "is no file of table t" in driver._why_wrong(job(), LakeGroup(GROUP, files=files), tables(u=one))


def test_of_two_tables_that_the_catalog_takes_for_one_the_second_is_refused(catalog: SqlCatalog) -> None:
    class IgnoresCapitals(SqlCatalog):
        def load_table(self, identifier: Any) -> Any:
            return super().load_table(tuple(part.lower() for part in identifier))

    folding = IgnoresCapitals("lake", **catalog.properties)
    table_of(folding, ("default", "t_changes"))
    found = LakeTables(lake_of(folding))
    for name in ("t", "T"):
        found.add(name)
    assert found.open.keys() == {"t"}
    assert "tables t and T have one table of changes" in found.refused["T"]


def test_a_table_of_another_kind_is_refused_alone(catalog: SqlCatalog) -> None:
    import pyarrow as pa

    catalog.create_namespace("default")
    catalog.create_table(("default", "bad_changes"), pa.schema([("row", pa.string())]))
    found = LakeTables(lake_of(catalog))
    for name in ("bad", "shop:good"):
        found.add(name)
    assert found.open.keys() == {"shop:good"}
    assert "is not a table of changes" in found.refused["bad"]
    assert found.lake.listed() == {"bad", "shop:good"}


def test_a_table_whose_positions_make_no_sense_is_refused_alone(catalog: SqlCatalog) -> None:
    table = table_of(catalog, ("default", "t_changes"))
    with table.transaction() as transaction:
        transaction.set_properties({f"{POSITIONS}feed": "nonsense"})
    found = LakeTables(lake_of(catalog))
    found.add("t")
    assert not found.open
    assert "its property walferry.positions.feed is 'nonsense'" in found.refused["t"]


def test_positions_of_a_group() -> None:
    wals = group((f"{GROUP}.1", 7), (f"{GROUP}.2", 0))
    assert driver._position(wals, LakeGroup(GROUP)) is None
    assert driver._position(wals, LakeGroup(GROUP, offset=30)) == (f"{GROUP}.1", 30)
    assert driver._position(wals, LakeGroup(GROUP, wals=1, ends={"0": 50})) == (f"{GROUP}.1", 50)
    assert driver._position(wals, LakeGroup(GROUP, wals=1, offset=9, ends={"0": 50})) == (f"{GROUP}.2", 9)
    assert driver._position(wals, LakeGroup(GROUP, wals=1)) == (f"{GROUP}.1", 7)  # a WAL without further entries


def test_a_group_whose_position_makes_no_sense_is_left_out_alone() -> None:
    error = PositionError("/q/wal", "it is nonsense")
    broken = SimpleNamespace(found=SimpleNamespace(wals=[SimpleNamespace(queued=SimpleNamespace(position_or_problem=error))]))
    assert driver._broken_position(broken) == str(error)  # type: ignore[arg-type]
    sound = SimpleNamespace(found=SimpleNamespace(wals=[SimpleNamespace(queued=SimpleNamespace(position_or_problem=5))]))
    assert driver._broken_position(sound) == ""  # type: ignore[arg-type]


def test_a_lake_is_valid_through_the_begin_of_the_oldest_wal_that_is_left() -> None:
    other = "rs2%2C16020%2C1"
    mine, theirs = ([parse_wal_name(f"{name}.{minute * 60_000}") for minute in (10, 20, 30)] for name in (GROUP, other))
    batch: Any = SimpleNamespace(groups=[group(*((wal.text, 0) for wal in mine[:2]))])

    def minutes(queued: list[WalName], now: int = 40, **done: int) -> float:
        return driver._Batch._valid_through(batch, queued, [LakeGroup(GROUP, **done)], now * 60_000) / 60_000  # type: ignore[arg-type]

    assert minutes(mine) == 9
    assert minutes(mine, offset=700) == 9
    assert minutes(mine, wals=1, offset=700) == 19
    assert minutes(mine, wals=2) == 29
    assert minutes([*mine, *theirs[1:]], wals=2) == 19, "another group has older WALs"
    assert minutes(mine[:2], wals=2) == 39, "the server is dead, and its queue is drained"
    assert minutes(mine, now=5) == 4, "a server's clock is ahead"


def test_only_positions_of_long_ago_are_forgotten() -> None:
    now = int(time.time() * 1000)
    assert not driver._is_old((f"{GROUP}.{now}", 1))
    assert driver._is_old((f"{GROUP}.{now - 8 * 86_400_000}", 1))
