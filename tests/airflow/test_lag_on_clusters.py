"""How long edits take to the peer cluster, measured over an hour of load with the real scheduler, triggerer and Spark Connect.

LAG_MINUTES is the length of the load, 60 by default. Prints a histogram of the times from an edit to its arrival, the flushes
that small WALs have forced, and the processor time of Airflow's triggerer while the source is idle, beside that of one that
watches nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

from demo.airflow_standalone import Airflow
from embedded.client import GLOBAL, JavaClient
from embedded.spark_connect import ConnectServer

from .airflow_processes import processes_of

DAG = "replicate_peer"
MINUTES = float(os.environ.get("LAG_MINUTES", "60"))
ROWS = 5  # in each second
MAX_LAG_SECONDS = 60  # servers roll every 30 s
P95_SECONDS = 60.0
SETTLING_SECONDS = 120  # for the first batches, which start what later ones find running
BAR_SECONDS = 5
ARRIVE_SECONDS = 300
IDLE_MINUTES = min(MINUTES, 10)
FORCED = "Too many WALs"  # AbstractFSWAL.findRegionsToForceFlush

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3 * 3600)]


@pytest.fixture
def airflow(standalone_pair: Any, tmp_path: Path) -> Iterator[Airflow]:
    address = standalone_pair.source.address
    extra = {"wal_root": address.wal_root, "znode_parent": address.znode_parent}
    with ConnectServer(tmp_path) as connect, ExitStack() as ended:
        environment = {
            "AIRFLOW_CONN_HBASE_SOURCE": json.dumps({"conn_type": "generic", "host": address.quorum, "extra": extra}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_CONN_SPARK_CONNECT": connect.connection,
        }
        airflow = Airflow(tmp_path / "airflow", environment)
        ended.callback(airflow.stop)
        airflow.launch()
        airflow.await_dag(DAG)
        yield airflow


def test_edits_arrive_within_a_minute_and_an_idle_source_costs_next_to_nothing(
    airflow: Airflow,
    standalone_pair: Any,
    java_client: Callable[..., JavaClient],
    managed_peer: Callable[..., str],
    unique: Callable[[str], str],
) -> None:
    source, peer_cluster = (java_client(each.address) for each in standalone_pair)
    peer, table = managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address), unique("t")
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL})
    source.put_peer_configuration(peer, {"walferry.managed": "true", "walferry.max_lag": str(MAX_LAG_SECONDS)})
    alone = idle(airflow, IDLE_MINUTES / 2)
    airflow.unpause(DAG)
    forced = standalone_pair.source.process.log_text().count(FORCED)

    written, arrived = load(source, peer_cluster, table)
    assert len(arrived) == len(written), f"{len(written) - len(arrived)} rows have not arrived within {ARRIVE_SECONDS} s"
    settled = written[0] + min(SETTLING_SECONDS, 60 * MINUTES / 2)
    seconds = [at - since for since, at in zip(written, arrived, strict=True) if since >= settled]
    p95 = quantiles(seconds, n=20)[-1]
    print(histogram(seconds))
    print(f"p50 {quantiles(seconds, n=2)[0]:.1f} s, p95 {p95:.1f} s, most {max(seconds):.1f} s; {len(seconds):,} edits")
    print(f"{standalone_pair.source.process.log_text().count(FORCED) - forced} flushes forced by {FORCED!r}")
    runs = airflow.await_runs(DAG)
    print("runs (the newest 100):", Counter((run["run_type"], run["state"]) for run in runs))

    time.sleep(2 * MAX_LAG_SECONDS)  # the rolls after the last edit
    airflow.await_runs(DAG)
    count = len(airflow.runs(DAG))
    watching = idle(airflow, IDLE_MINUTES)
    print(f"idle: {watching:.2f} CPU-seconds a minute in the triggerer, {watching - alone:.2f} more than while the DAG is paused")
    assert len(airflow.runs(DAG)) - count <= 1  # the hourly one
    assert source.compare(table, peer_cluster).same
    assert p95 <= P95_SECONDS


def load(source: JavaClient, peer_cluster: JavaClient, table: str) -> tuple[list[float], list[float]]:
    """Write some rows in each second until the time is over. Returns when each was written, and when it has arrived."""
    written: list[float] = []
    arrived: list[float] = []
    end = time.monotonic() + 60 * MINUTES
    while (now := time.monotonic()) < end or (len(arrived) < len(written) and now < end + ARRIVE_SECONDS):
        if now < end:
            source.put_many(table, ROWS, ["f:q"], first=len(written))
            written += [now] * ROWS
        there = peer_cluster.count_rows(table)
        arrived += [time.monotonic()] * (there - len(arrived))
        time.sleep(max(0.0, now + 1 - time.monotonic()))
    return written, arrived


def histogram(seconds: list[float]) -> str:
    bars = Counter(int(each // BAR_SECONDS) for each in seconds)
    width = max(bars.values()) / 60
    return "\n".join(
        f"{at * BAR_SECONDS:4d}-{(at + 1) * BAR_SECONDS:<4d}s {bars[at]:6,d} {'#' * round(bars[at] / width)}"
        for at in range(max(bars) + 1)
    )


def idle(airflow: Airflow, minutes: float) -> float:
    """Return the CPU-seconds a minute that Airflow's triggerer spends meanwhile."""
    before = cpu_of(airflow)
    time.sleep(60 * minutes)
    return (cpu_of(airflow) - before) / minutes


def cpu_of(airflow: Airflow) -> float:
    """Return the CPU-seconds that Airflow's triggerer has spent, with its processes."""
    return sum(sum(process.cpu_times()[:4]) for process in processes_of(airflow, "triggerer"))
