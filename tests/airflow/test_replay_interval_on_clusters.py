"""The DAG replay_interval, backfilled by Airflow's own command, from one real HBase to another, with real Spark jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from embedded.client import JavaClient
from tests.cluster.test_shipping import archive
from tests.cluster.walferry_runs import is_untouched, positions, source_of
from walferry.hbase.files.store import WalStore
from walferry.hbase.names import parse_wal_name
from walferry.replication.source.cluster import SourceCluster

from .conftest import Run, go_on
from .test_replicate_peer_on_clusters import peer, peer_cluster, source, table
from .test_run_checks import airflow

__all__ = ["peer", "peer_cluster", "source", "table"]  # fixtures

DAG = "replay_interval"
SECONDS = 6  # of an interval, as conftest.py sets it
TRIES = 10  # to write within intervals on a busy machine


@pytest.fixture
def backfill(dags: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Run]]:
    """`backfill(first, last, '{"peer": …}')` creates a backfill by Airflow's command and runs it → its runs, oldest first."""

    def run(first: datetime, last: datetime, conf: str, *more: str) -> list[Run]:
        words = ["--dag-id", DAG, "--from-date", first.isoformat(), "--to-date", last.isoformat(), "--dag-run-conf", conf]
        airflow("backfill", "create", *words, *more)
        return [go_on(dags[DAG], run_id, monkeypatch) for run_id in queued_runs()]

    return run


def queued_runs() -> list[str]:
    """Return the runs of a backfill, which no scheduler takes up here. While it is active, no further backfill can be made."""
    from airflow.models.backfill import Backfill
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        for made in session.query(Backfill).filter(Backfill.completed_at.is_(None)):
            made.completed_at = datetime.now(UTC)
        runs = session.query(DagRun).filter(DagRun.dag_id == DAG, DagRun.state == "queued").order_by(DagRun.logical_date)
        return [run.run_id for run in runs]


def await_interval(number: int, first: datetime) -> None:
    """Wait for a moment within an interval."""
    time.sleep(max(0.0, (first + timedelta(seconds=number * SECONDS + 1) - datetime.now(UTC)).total_seconds()))


def is_over(number: int, first: datetime) -> bool:
    return datetime.now(UTC) >= first + timedelta(seconds=(number + 1) * SECONDS)


def write_intervals(source: JavaClient, table: str) -> tuple[datetime, list[set[bytes]]] | None:
    """Write rows in each of five intervals; None if the machine was too slow for that."""
    now, before = time.time(), rows_of(source, table)
    first = datetime.fromtimestamp(now - now % SECONDS + SECONDS, UTC)
    rows: list[set[bytes]] = []
    for number in range(5):
        await_interval(number, first)
        source.put_many(table, 100, ["f:a", "l:b"], first=len(before) + 100 * number)
        source.roll_wals()
        if is_over(number, first):
            return None
        rows.append(rows_of(source, table).difference(before, *rows))
    await_interval(5, first)
    return first, rows


@pytest.fixture
def intervals(
    source: JavaClient, peer_cluster: JavaClient, peer: str, table: str, replicate_peer
) -> tuple[datetime, list[set[bytes]]]:
    """The start of five intervals, and the table's 100 rows of each, which the peer cluster had and lost."""
    written = next(filter(None, (write_intervals(source, table) for _ in range(TRIES))), None)
    assert written, f"{TRIES} times the rows of an interval were not written before its end"
    first, rows = written
    assert replicate_peer(peer=peer, deadline=120).state == "success"
    assert source.compare(table, peer_cluster, families=["f"]).same
    peer_cluster.empty_table(table)
    return first, rows


MASTERS = "$masterlocalwal$"  # ends the names of WALs of a Master's own store, which lie there too


def rows_of(client: JavaClient, table: str) -> set[bytes]:
    return {cell.row for cell in client.scan_all(table, ["f"])}


@pytest.fixture
def aside(standalone_pair, tmp_path: Path) -> Iterator[Callable[[datetime], list[str]]]:
    """`aside(time)` takes away the archived WALs that were begun before that time, and returns their names. They come back."""
    old = Path(standalone_pair.source.address.wal_root.removeprefix("file://")) / "oldWALs"
    taken: list[Path] = []

    def take(until: datetime) -> list[str]:
        for file in sorted(old.iterdir()):
            if file.name.endswith(MASTERS):
                continue
            name = parse_wal_name(file.name)
            if not name.is_meta and name.timestamp < until.timestamp() * 1000:
                file.rename(tmp_path / file.name)
                taken.append(file)
        return [file.name for file in taken]

    yield take
    for file in taken:
        (tmp_path / file.name).rename(file)


def archived(source: JavaClient, at: SourceCluster, until: datetime) -> None:
    """Let HBase archive all WALs that were begun before a time."""
    store = Path(at.wal_root.removeprefix("file://")) / "WALs"
    names = [file.name for file in store.glob("*/*") if file.suffix != ".meta"]
    archive(SimpleNamespace(source=source, at=at), [name for name in names if begun(name) < until.timestamp() * 1000])


def begun(wal: str) -> int:
    return parse_wal_name(wal).timestamp


@pytest.mark.capability("a backfill")
def test_three_past_intervals_bring_their_rows_into_an_emptied_table_and_one_that_is_partly_gone_is_named(
    backfill, source, peer_cluster, peer, table, intervals, aside, standalone_pair
):
    at = source_of(standalone_pair.source.address)
    first, rows = intervals
    second, third, fourth = (first + timedelta(seconds=n * SECONDS) for n in (1, 2, 3))
    before = positions(at, peer)
    conf = f'{{"peer": "{peer}", "deadline": 120}}'
    runs = backfill(second, fourth, conf)
    assert [run.state for run in runs] == ["success"] * 3, [run.report for run in runs]
    assert [run.report["tables"][table]["edits"] > 0 for run in runs] == [True] * 3
    assert [run.report["totals"]["shippedOps"] for run in runs] == [100] * 3
    assert {group["sink"] for run in runs for group in run.report["groups"]} - {""} == {"direct"}
    theirs = set().union(*rows[1:4])
    assert peer_cluster.scan_all(table) == [cell for cell in source.scan_all(table, ["f"]) if cell.row in theirs]
    assert len(theirs) == 300
    assert is_untouched(before, positions(at, peer))

    archived(source, at, third)
    peer_cluster.empty_table(table)
    taken = aside(third)
    (failed,) = backfill(second, second, conf, "--reprocess-behavior", "completed")
    assert failed.state == "failed"
    assert (failed.tasks["plan", None], failed.tries["plan", None]) == ("failed", 2)  # the first try was before
    (reason,) = failed.report["failures"]
    group = parse_wal_name(taken[-1]).group
    assert f"WALs of group {group} with entries of {second:%Y-%m-%d %H:%M:%S} to {third:%Y-%m-%d %H:%M:%S}: gone: " in reason
    assert WalStore(at.wal_root).locate(parse_wal_name(taken[-1])) is None
    assert rows_of(peer_cluster, table) == set()


def test_a_dry_run_by_hand_tells_what_a_table_has(run_dag, source, peer_cluster, peer, table):
    started = datetime.now(UTC)
    source.put_many(table, 50, ["f:a"])
    ended = datetime.now(UTC)
    times = {"from_date": started.isoformat(), "to_date": ended.isoformat()}
    run = run_dag(DAG, peer=peer, dry_run=True, **times)
    assert run.state == "success", run.report
    assert run.report["tables"][table]["cells"] == 50
    assert run.report["totals"]["shippedOps"] == 0
    assert rows_of(peer_cluster, table) == set()
    refused = run_dag(DAG, peer=peer)
    assert "a run by hand needs both from_date and to_date" in refused.report["failures"][0]
