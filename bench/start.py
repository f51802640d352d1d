"""Small batches through spark-submit and through a Spark Connect server, in turns, from the task's start to its end.

    PYTHONPATH=plugins python -m bench.start     WALFERRY_BENCH_START_MB (5), WALFERRY_BENCH_START_ROUNDS (5),
                                                 WALFERRY_BENCH_START_PAUSE (0): seconds before each batch

A task is a process that is forked from one that has imported Airflow, as Airflow's executor does it. It reads the DAG's file,
looks for the slave, ships, and ends. `shipping` is the part of it from when a WAL group is taken until it is done.

After a minute without a job a server ends its idle Python workers. A pause of more than 60 s shows what that costs.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.drains import TABLE, VALUE_BYTES, Bench, bench
from bench.processes import TreeUsage, cpu_seconds
from embedded.spark_connect import ConnectServer
from walferry.airflow.steps import batch
from walferry.queues.rolling import roll
from walferry.source.session import open_session

MEGABYTES = float(os.environ.get("WALFERRY_BENCH_START_MB", "5"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_START_ROUNDS", "5"))
PAUSE_SECONDS = float(os.environ.get("WALFERRY_BENCH_START_PAUSE", "0"))
ROW_BYTES = 2 * (VALUE_BYTES + 42)  # in a WAL, about
DAGS = Path(__file__).resolve().parents[1] / "dags"
WAYS = ("spark-submit", "Connect")


@dataclass(frozen=True)
class Batch:
    """One batch. Times are in seconds."""

    by: str
    seconds: float  # from the task's start to its end
    shipping: float  # of these, while the WAL groups were being shipped
    cpu: float  # of the task and its children
    server_cpu: float  # of the Spark Connect server with its Python processes, meanwhile

    def line(self) -> str:
        return f"{self.by:13} {self.seconds:8.2f} {self.shipping:9.2f} {self.cpu:9.2f} {self.server_cpu:11.2f}"


class TaskInstance:
    """As much of Airflow's task instance as the operator asks for."""

    dag_id, try_number, map_index = "bench", 1, -1

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id

    def xcom_push(self, key: str, value: Any) -> None:
        """What a report would say: a batch that went another way than it should have must not count."""
        raise RuntimeError(f"{key}: {value}")


def task(run_id: str, planned: dict[str, Any]) -> None:
    """What the process of Airflow's task `ship` does."""
    sys.path.insert(0, str(DAGS))
    import replicate_peer  # type: ignore[import-not-found]  # noqa: F401

    from walferry.airflow.operators.ship_wals import ShipWalsOperator

    params = {"deadline": 600, "broken_wals": "stop", "source_conn_id": "hbase_source"}
    context: Any = {"params": params, "ti": TaskInstance(run_id)}
    operator = ShipWalsOperator(task_id="ship", peer="walferry", plan=planned)
    operator.pre_execute(context)
    operator.execute(context)


def server_cpu(server: ConnectServer) -> float:
    """CPU seconds of the server's processes so far. Workers come and go."""
    total = 0.0
    for process in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += cpu_seconds([process.pid])
    return total


def run_task(on: Bench, server: ConnectServer, by: str, run_id: str) -> Batch:
    """Fork the task and wait for its end."""
    before = server_cpu(server)
    planned = batch.plan(on.source, "walferry", run_id, run_id).to_xcom()
    log = on.log.open("ab")
    began = time.monotonic()
    if (pid := os.fork()) == 0:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            task(run_id, planned)
            code = 0
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    usage = TreeUsage(pid)
    _, status = os.waitpid(pid, 0)
    seconds, used = time.monotonic() - began, usage.stop()
    log.close()
    if status:
        raise RuntimeError(f"the task by {by} failed:\n{on.log.read_text(errors='replace')[-6000:]}")
    groups = batch.summaries(on.source, "walferry", run_id)
    return Batch(by, seconds, max(g.seconds for g in groups), used.cpu_seconds, server_cpu(server) - before)


def one_round(on: Bench, server: ConnectServer, rows: int, round_: int) -> list[Batch]:
    """Write and ship a batch each way; the ways take turns at being the first."""
    done = []
    for by in WAYS if round_ % 2 == 0 else reversed(WAYS):
        on.write(rows)
        with open_session(on.source) as session:
            roll(session, ["walferry"])
        time.sleep(PAUSE_SECONDS)
        os.environ["AIRFLOW_CONN_SPARK_CONNECT"] = server.connection
        if by == "spark-submit":
            del os.environ["AIRFLOW_CONN_SPARK_CONNECT"]
        done.append(run_task(on, server, by, f"bench-{by}-{round_}"))
        print(done[-1].line(), flush=True)
    return done


def main() -> None:
    """Start the clusters and the server, warm up, ship in turns, print ratios."""
    import airflow.sdk.execution_time.task_runner  # noqa: F401  # as the executor has

    rows = max(1, int(MEGABYTES * 1e6 / ROW_BYTES))
    with bench() as on, ConnectServer(on.log.parent) as server:
        source = on.source
        extra = {"wal_root": source.wal_root, "znode_parent": source.znode_parent}
        os.environ["AIRFLOW_CONN_HBASE_SOURCE"] = json.dumps({"conn_type": "generic", "host": source.quorum, "extra": extra})
        os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "local[2]"}'
        print(f"{ROUNDS} rounds of {rows:,} rows, about {MEGABYTES:g} MB of {TABLE}'s WALs, after one to warm up")
        print(f"{'':13} {'seconds':>8} {'shipping':>9} {'task CPU':>9} {'server CPU':>11}", flush=True)
        one_round(on, server, rows, 0)
        print("-" * 54, flush=True)
        batches = [each for round_ in range(1, ROUNDS + 1) for each in one_round(on, server, rows, round_)]
        by = {way: [b for b in batches if b.by == way] for way in WAYS}
        medians = {way: statistics.median(b.seconds for b in by[way]) for way in WAYS}
        ratios = sorted(s.seconds / c.seconds for s, c in zip(by["spark-submit"], by["Connect"], strict=True))
        print("-" * 54)
        print(f"medians: spark-submit {medians['spark-submit']:.2f} s, Connect {medians['Connect']:.2f} s")
        print(f"spark-submit / Connect: {statistics.median(ratios):.1f} (median; {', '.join(f'{r:.1f}' for r in ratios)})")


if __name__ == "__main__":
    main()
