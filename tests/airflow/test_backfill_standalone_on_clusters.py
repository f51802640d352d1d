"""A backfill of several past intervals under Airflow's own scheduler, which runs them side by side with real Spark jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demo.airflow_standalone import Airflow
from embedded.client import GLOBAL
from tests.airflow_standalone import running
from tests.cluster.replaying import rows_of
from tests.cluster.walferry_runs import is_untouched, positions, roll, source_of

DAG = "replay_interval"
SECONDS = 5  # of an interval
INTERVALS = 3
ROWS = 200  # of each interval

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture
def airflow(standalone_pair, tmp_path: Path) -> Iterator[Airflow]:
    at = standalone_pair.source.address
    source = {"conn_type": "generic", "host": at.quorum, "extra": {"znode_parent": at.znode_parent, "wal_root": at.wal_root}}
    environment = {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps(source),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW__WALFERRY__REPLAY_INTERVALS": f"* * * * * */{SECONDS}",  # the last field is seconds
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    }
    with running(Airflow(tmp_path / "airflow", environment), DAG) as airflow:
        yield airflow


def test_the_intervals_of_a_backfill_are_shipped_side_by_side(airflow, standalone_pair, java_client, managed_peer, unique):
    clusters = standalone_pair
    source, peer_cluster = (java_client(cluster.address) for cluster in clusters)
    at, table, peer = source_of(clusters.source.address), unique("t"), managed_peer(*(cluster.address for cluster in clusters))
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL})
    now, rows = time.time(), list[frozenset[bytes]]()
    first = datetime.fromtimestamp(now - now % SECONDS + SECONDS, UTC)
    for number in range(INTERVALS + 2):  # the first and the last interval are not asked for
        time.sleep(max(0.0, (first + timedelta(seconds=number * SECONDS + 1) - datetime.now(UTC)).total_seconds()))
        source.put_many(table, ROWS, ["f:a"], first=ROWS * number)
        rows.append(rows_of(source, table).difference(*rows))
    time.sleep(SECONDS)
    roll(at, peer)
    queued = positions(at, peer)

    airflow.unpause(DAG)
    dates = [(first + timedelta(seconds=number * SECONDS)).isoformat() for number in (1, INTERVALS)]
    conf = json.dumps({"peer": peer, "deadline": 1800})
    began = time.monotonic()
    print(airflow.command("backfill", "create", "--dag-id", DAG, "--from-date", dates[0], "--to-date", dates[1],
                          "--dag-run-conf", conf))  # fmt: skip
    runs = airflow.await_runs(DAG)
    print(f"{INTERVALS} intervals in {time.monotonic() - began:.1f} s")
    ships = {}
    for run in runs:
        tasks = {task["task_id"]: task for task in airflow.tasks(DAG, run["dag_run_id"])}
        ships[run["dag_run_id"]] = (tasks["ship"]["start_date"], tasks["ship"]["end_date"])
        print(run["run_type"], run["data_interval_start"], run["data_interval_end"], run["state"], ships[run["dag_run_id"]])
    assert [(run["run_type"], run["state"]) for run in runs] == [("backfill", "success")] * INTERVALS
    assert max(start for start, _ in ships.values()) < min(end for _, end in ships.values()), "the jobs ran side by side"
    reports = [airflow.returned(DAG, run["dag_run_id"], "report") for run in runs]
    assert [report["totals"]["shippedOps"] for report in reports] == [ROWS] * INTERVALS
    asked = frozenset().union(*rows[1:-1])
    assert peer_cluster.scan_all(table) == [cell for cell in source.scan_all(table) if cell.row in asked]
    assert is_untouched(queued, positions(at, peer))
