"""A peer of a real source whose edits go into a lake, and what its tables of changes have."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from demo.lake import CATALOG, settings
from embedded.client import GLOBAL, LOCAL
from embedded.wire import CellType, delete_column, delete_family, put
from tests.cluster.conftest import Sides
from tests.cluster.walferry_runs import roll
from tests.unit.replication.sinks.iceberg.lake import rows_of
from walferry.admin.creating import create, to_lake
from walferry.admin.peers import peer_admin
from walferry.cli.main import main
from walferry.engine.summary import GroupSummary, Status
from walferry.jobs.workers import LocalProcesses
from walferry.shipping.lake.catalog import open_catalog
from walferry.shipping.ship_run import ShipRun, ship_queued


@dataclass(frozen=True)
class Fed:
    """A peer whose edits of two tables go into a lake."""

    sides: Sides
    peer: str
    tables: Sequence[str]

    def begin(self) -> None:
        """Make the peer."""
        with peer_admin(self.sides.at) as admin:
            create(admin, self.peer, None, table_cfs=dict.fromkeys(self.tables, ()), goes_to=to_lake(CATALOG))

    def batch(self, *, rolls: bool = True, run_id: str = "run", **options: Any) -> list[GroupSummary]:
        if rolls:
            roll(self.sides.at, self.peer)
        return ship_queued(self.run(run_id, **options), LocalProcesses(2), print)

    def run(self, run_id: str = "run", **options: Any) -> ShipRun:
        return ShipRun(source=self.sides.at, peer_id=self.peer, run_id=run_id, deadline=120, **options)

    def changes(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table of changes, as DuckDB reads them from the files of its present snapshot."""
        try:
            found = lake().load_table(("default", f"{table}_changes"))
        except NoSuchTableError:
            return []
        return rows_of(found)

    def is_complete(self) -> None:
        """Check that the tables of changes have each cell of a raw scan once, and nothing else."""
        for table in self.tables:
            found = self.changes(table)
            fed = [(row["wal"], row["offset"], row["cell"]) for row in found if row["wal"]]
            assert len(set(fed)) == len(fed)
            as_cells = sorted(
                (row["row"], row["family"], row["qualifier"], row["timestamp"], row["type"], row["value"]) for row in found
            )
            raw = [cell for cell in self.sides.source.scan_all(table, raw=True) if cell.family == b"f"]
            assert as_cells == sorted(
                (c.row, c.family, c.qualifier, c.timestamp, NAMES[CellType(c.type)], c.value) for c in raw
            )  # fmt: skip


NAMES = {
    CellType.PUT: "Put",
    CellType.DELETE: "Delete",
    CellType.DELETE_COLUMN: "DeleteColumn",
    CellType.DELETE_FAMILY: "DeleteFamily",
    CellType.DELETE_FAMILY_VERSION: "DeleteFamilyVersion",
}


def deadly(step: Callable[..., Any], chance: random.Random, risk: float) -> Callable[..., Any]:
    """Let this process be killed by chance before the step, and by the same chance after it."""

    def either(*arguments: Any, **named: Any) -> Any:
        if chance.random() < risk:
            os.kill(os.getpid(), signal.SIGKILL)
        done = step(*arguments, **named)
        if chance.random() < risk:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return either


def kill_again_and_again(
    fed: Fed, keep_shipping: Callable[..., None], kills: int, alive: tuple[float, float], within: float
) -> None:
    """Write, and kill a process that ships, so many times after a time by chance. Then ship the rest within some seconds."""
    context, chance = get_context("fork"), random.Random(5)
    for number in range(kills):
        write(fed, chance, 20, 20 * number)
        roll(fed.sides.at, fed.peer)
        process = context.Process(target=keep_shipping, args=(fed.run(f"run {number}"), number))
        process.start()
        process.join(chance.uniform(*alive))
        process.kill()
        process.join()
    deadline = time.monotonic() + within
    while any(s.status is not Status.DONE for s in fed.batch(run_id="last")):
        assert time.monotonic() < deadline
        time.sleep(1)
    fed.is_complete()


def lake() -> Catalog:
    return open_catalog(CATALOG)


@pytest.fixture
def fed(unfed: Fed) -> Iterator[Fed]:
    unfed.begin()
    yield unfed
    unfed.sides.source.remove_peer(unfed.peer)


@pytest.fixture
def unfed(sides: Sides, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Fed]:
    """Two tables, and a peer that is not there yet."""
    for name, value in settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    tables = [unique("t"), unique("t")]
    for table in tables:
        create_table(sides, table)
    yield Fed(sides, unique("peer"), tables)
    for table in tables:
        sides.source.drop_table(table)


@pytest.fixture
def walferry(sides: Sides, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`walferry("ship", peer)` → exit status, standard output and stderr."""
    extra = {"wal_root": sides.at.wal_root, "znode_parent": sides.at.znode_parent}
    source = json.dumps({"host": sides.at.quorum, "extra": extra})

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()  # what was said before
        status = main(["--source", source, *arguments])
        return status, *capfd.readouterr()

    return run


def create_table(sides: Sides, table: str) -> None:
    """Create a table of which flushes and compactions drop nothing, so that raw scans show all cells."""
    sides.source.create_table(table, {"f": GLOBAL, "l": LOCAL}, [b"row1", b"row2", b"row3"], versions=10_000)
    sides.source.alter_family(table, "f", {"KEEP_DELETED_CELLS": "TRUE"})


def write(fed: Fed, chance: random.Random, count: int, begin: int) -> None:
    """Write puts and deletes, each with a timestamp of its own, so that a raw scan shows every cell."""
    for table in fed.tables:
        some = []
        for number in range(begin, begin + count):
            row, at = f"row{chance.randrange(50):02}", 1_000_000 + number
            some.append(
                chance.choice(
                    [
                        put(row, {"f:a": b"%d" % number, "f:b": b"x", "l:c": b"local"}, timestamp=at),
                        put(row, {"f:a": b"%d" % number}, timestamp=at),
                        delete_column(row, "f:a", timestamp=at),
                        delete_family(row, "f", timestamp=at),
                    ]
                )
            )
        fed.sides.source.write(table, some, one_by_one=True)
