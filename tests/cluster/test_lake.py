"""Batches of a peer whose edits go into a lake: each cell of the source is in the tables of changes once, whatever is killed."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

from demo.lake import CATALOG, settings
from embedded.wire import put
from tests.cluster.feeds import Fed, create_table, deadly, fed, kill_again_and_again, lake, unfed, walferry, write
from tests.cluster.walferry_runs import plan, positions, roll
from walferry.base.errors import WalferryError
from walferry.engine.summary import Status
from walferry.hbase.errors import NoPeerCluster
from walferry.jobs.workers import LocalProcesses
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import open_session
from walferry.shipping.lake import driver
from walferry.shipping.ship_run import ShipRun, ship_queued

__all__ = ["fed", "unfed", "walferry"]  # fixtures

KILLS = int(os.environ.get("LAKE_KILLS", "6"))


def test_each_cell_of_the_source_is_in_the_changes_once(fed: Fed) -> None:
    chance = random.Random(1)
    for number in range(3):
        write(fed, chance, 40, number * 40)
        summaries = fed.batch(run_id=f"run {number}")
        assert [(s.status, s.sink) for s in summaries] == [(Status.DONE, "iceberg")] * len(summaries)
        fed.is_complete()
    assert sum(s.shippedCells for s in summaries) > 0
    assert not plan(fed.sides.at, fed.peer).to_ship


def test_a_batch_without_edits_commits_nothing(fed: Fed) -> None:
    fed.sides.source.write(fed.tables[0], [put("r", {"f:a": b"v"})])
    fed.batch()
    table = lake().load_table(("default", f"{fed.tables[0]}_changes"))
    fed.batch()
    again = lake().load_table(("default", f"{fed.tables[0]}_changes"))
    assert [s.snapshot_id for s in again.snapshots()] == [s.snapshot_id for s in table.snapshots()]
    with pytest.raises(NoSuchTableError):
        lake().load_table(("default", f"{fed.tables[1]}_changes"))


class Killed(BaseException):
    """Stands for kill -9: nothing handles it."""


@pytest.mark.parametrize("step", ["between the commits of two tables", "before the positions", "between two positions"])
def test_what_was_committed_and_not_noted_is_not_committed_again(fed: Fed, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    chance = random.Random(2)
    write(fed, chance, 30, 0)
    roll(fed.sides.at, fed.peer)
    before = positions(fed.sides.at, fed.peer)
    with monkeypatch.context() as killed:
        name, owner = ("append", driver) if step.startswith("between the commits") else ("_move", driver._Batch)
        original, calls = getattr(owner, name), []

        def die(*arguments: Any, **named: Any) -> Any:
            calls.append(name)
            if len(calls) > (1 if step.startswith("between") else 0):
                raise Killed
            return original(*arguments, **named)

        killed.setattr(owner, name, die)
        with suppress(Killed):
            fed.batch(rolls=False)
    if step != "between two positions":
        assert positions(fed.sides.at, fed.peer) == before
    write(fed, chance, 30, 30)
    assert {s.status for s in fed.batch()} == {Status.DONE}
    fed.is_complete()


def test_a_lake_peer_has_no_peer_cluster(fed: Fed) -> None:
    with open_session(fed.sides.at) as session:
        peer = read_peer(session, fed.peer)
    with pytest.raises(NoPeerCluster, match="edits go to the lake"), peer_tables(peer, fed.sides.at.login):
        raise AssertionError("it must not be connected")


def test_a_catalog_that_is_not_configured_is_named_and_nothing_is_lost(
    fed: Fed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(fed, random.Random(3), 10, 0)
    roll(fed.sides.at, fed.peer)
    before = positions(fed.sides.at, fed.peer)
    with monkeypatch.context() as away:
        for name in settings(tmp_path):
            away.delenv(name)
        with pytest.raises(LakeError, match="catalog lake cannot be used"):
            fed.batch(rolls=False)
    assert positions(fed.sides.at, fed.peer) == before
    fed.batch(rolls=False)
    fed.is_complete()


def test_a_table_that_is_not_one_of_changes_stops_the_groups_with_its_edits(fed: Fed) -> None:
    import pyarrow as pa

    write(fed, random.Random(4), 5, 0)
    lake().create_namespace_if_not_exists("default")
    lake().create_table(("default", f"{fed.tables[1]}_changes"), pa.schema([("row", pa.string())]))
    summaries = fed.batch()
    failed = [s for s in summaries if s.status is Status.FAILED]
    assert failed
    assert "is not a table of changes: column row" in str(failed[0].error)
    lake().drop_table(("default", f"{fed.tables[1]}_changes"))
    fed.batch()
    fed.is_complete()


def test_edits_of_a_table_that_was_dropped_meanwhile_are_changes_too(fed: Fed, unique: Callable[[str], str]) -> None:
    fed.sides.source.write(fed.tables[0], [put("r", {"f:a": b"v"})])
    cells = [cell for cell in fed.sides.source.scan_all(fed.tables[0], raw=True) if cell.family == b"f"]
    fed.sides.source.drop_table(fed.tables[0])
    fed.batch()
    assert [(row["row"], row["timestamp"]) for row in fed.changes(fed.tables[0])] == [(c.row, c.timestamp) for c in cells]
    create_table(fed.sides, fed.tables[0])


def test_the_command_creates_ships_and_shows_a_lake_s_peer(
    unfed: Fed, walferry: Callable[..., tuple[int, str, str]], unique: Callable[[str], str]
) -> None:
    fed, peer, table = unfed, unique("peer"), unfed.tables[0]
    create_it = ("peers", "create", peer, "--lake", CATALOG, "--table-cfs", table)
    try:
        status, out, err = walferry(*create_it)
        assert (status, err) == (0, "")
        assert f"peer {peer} to the lake {CATALOG} is managed by Walferry" in out
        assert walferry(*create_it)[0] == 0
        for refused, why in (
            (("peers", "create", peer, "--lake", "other", "--table-cfs", table), "exists already"),
            (("peers", "create", "x", "--lake", CATALOG, "--table-cfs", "nowhere"), "there is no table nowhere at the source"),
            (("peers", "create", "x", "--lake", CATALOG), f"peer {peer} feeds the lake {CATALOG} with edits of {table}, too"),
            (("peers", "create", "x"), "one of --cluster-key, --lake and --kafka is required"),
            (("peers", "set", peer, "sink=hfiles"), f"goes to the lake {CATALOG}, so sink would do nothing"),
            (("peers", "hand-back", peer, "--to", "y"), "to which HBase cannot ship"),
            (("verify", peer), f"the lake has no default.{table} yet"),
        ):
            status, _, err = walferry(*refused)
            assert status != 0
            assert why in err
        other = ("peers", "create", unique("peer"), "--lake", CATALOG, "--table-cfs", fed.tables[1])
        assert walferry(*other)[0] == 0
        assert walferry("peers", "remove", other[2])[0] == 0
        fed.sides.source.write(table, [put("r", {"f:a": b"v"})])
        assert "its edits go to the lake" in walferry("ship", peer, "--sink", "direct")[2]
        status, _, err = walferry("ship", peer)
        assert status == 0
        assert "committed 1 changes in 1 files to 1 tables" in err
        for shown in (("peers", "list"), ("peers", "show", peer)):
            assert f"the lake {CATALOG}" in walferry(*shown)[1]
        checks = [line for line in walferry("check")[1].splitlines() if f"peer {peer}" in line]
        assert [line.split()[0] for line in checks] == ["well"] * len(checks)
        assert any(f"{CATALOG} answers" in line for line in checks)
        assert walferry("peers", "set", peer, "max_lag=60")[0] == 0
        assert walferry("peers", "remove", peer)[0] == 0
    finally:
        with suppress(Exception):
            fed.sides.source.remove_peer(peer)


def keep_shipping(run: ShipRun, seed: int) -> None:
    """Ship again and again, and die by chance at each step that changes anything."""
    chance = random.Random(seed)

    driver.append = deadly(driver.append, chance, 0.1)  # of this process
    driver._Batch._move = deadly(driver._Batch._move, chance, 0.1)
    while True:
        try:
            ship_queued(run, LocalProcesses(1), lambda line: None)
        except WalferryError:
            time.sleep(0.2)


@pytest.mark.timeout(900)
def test_drivers_that_are_killed_again_and_again_bring_each_cell_once(fed: Fed) -> None:
    kill_again_and_again(fed, keep_shipping, KILLS, alive=(0.2, 4.0), within=120)
