"""Airflow's tasks that run a job, from their start to their end.

A task is a process that bench.executor forks. It reads the DAG's file, has the job run through a Spark Connect server or
spark-submit, and ends.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.processes import TreeUsage, Usage
from embedded.spark_connect import ConnectServer
from walferry.replication.queues.dead_servers import RecoveredQueue
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch, recovery
from walferry.runs.values import Planned

EXECUTOR = Path(__file__).with_name("executor.py")
DEADLINE_SECONDS = 1800


@dataclass(frozen=True)
class Place:
    """Where a task runs its job. `server`: through which, None: by spark-submit. `cores`: which its processes get, None: all.
    `slots`: how many Spark tasks spark-submit runs at once. `preload`: what the executor has imported besides Airflow."""

    server: ConnectServer | None = None
    cores: Sequence[int] | None = None
    slots: int = 2
    preload: str = ""


@dataclass(frozen=True)
class Shipping:
    """What a task that ships is to do."""

    source: SourceCluster
    peer: str
    run_id: str
    sink: str
    groups: Sequence[str] = ()
    place: Place = Place()
    along: Sequence[str] = ()  # peers that it takes along


@dataclass(frozen=True)
class TaskRun:
    """How a task went."""

    seconds: float  # from its start to its end
    used: Usage  # by the task and its children
    server: Usage  # by the Spark Connect server with its Python processes
    process_cpu: float  # CPU-seconds of the task's process and of the children that it has waited for

    @property
    def cpu_seconds(self) -> float:
        """Of everything that ran for the task."""
        return self.used.cpu_seconds + self.server.cpu_seconds


@dataclass(frozen=True)
class Shipped(TaskRun):
    """How a task that ships went."""

    shipping: float  # seconds while the WAL groups were being shipped
    own_cpu: float  # of the processes that ship, meanwhile; 0 if that is not known


def ship(shipping: Shipping, log: Path) -> Shipped:
    """Run a task that ships; its output goes to `log`. Raises RuntimeError if it fails."""
    peer, run_id = shipping.peer, shipping.run_id
    fields = {"peer": peer, "plan": _plan(shipping).to_xcom(), "recovery": bool(shipping.groups)}
    plans = {each: batch.plan(shipping.source, each, run_id, run_id).to_xcom() for each in shipping.along}
    params = {"deadline": DEADLINE_SECONDS, "broken_wals": "stop", "sink": shipping.sink, "hfiles_from": None}
    operator = "walferry.airflow.operators.ship_wals:ShipWalsOperator"
    ran = operate("replicate_peer", operator, fields, params, shipping.source, run_id, shipping.place, log, plans)
    groups = batch.summaries(shipping.source, peer, run_id)
    if others := {g.sink for g in groups if g.shippedCells} - {shipping.sink}:
        raise RuntimeError(f"the edits were sent otherwise: {others}; {[g.notLoaded or g.directRefused for g in groups]}")
    seconds, own_cpu = max(g.seconds for g in groups), sum(g.cpuSeconds for g in groups)
    return Shipped(ran.seconds, ran.used, ran.server, ran.process_cpu, seconds, own_cpu)


def operate(
    dag: str, operator: str, fields: Mapping[str, Any], params: Mapping[str, Any], source: SourceCluster, run_id: str,
    place: Place, log: Path, plans: Mapping[str, Any] | None = None,
) -> TaskRun:  # fmt: skip
    """Run a task of an operator, which is named `module:class`. Raises RuntimeError if it fails."""
    arguments = {"operator": operator, "fields": fields, "params": params, "run_id": run_id, "plans": plans or {}}
    return run_task(dag, "bench.executor:operate", arguments, source, place, log)


def run_task(dag: str, function: str, arguments: Mapping[str, Any], source: SourceCluster, place: Place, log: Path) -> TaskRun:
    """Have a task of the DAG call a function, which is named `module:function`. Raises RuntimeError if it fails."""
    task = {
        "dag": dag, "function": function, "arguments": arguments, "environment": _connections(source, place),
        "cores": None if place.cores is None else list(place.cores), "log": str(log),
    }  # fmt: skip
    orders, answers = _executor(place.preload)
    at_server = TreeUsage(place.server.pid) if place.server else None
    began = time.monotonic()
    print(json.dumps(task), file=orders, flush=True)
    usage = TreeUsage(int(answers.readline()))
    answers.readline()
    seconds, used = time.monotonic() - began, usage.stop()
    print(file=orders, flush=True)
    code, cpu = answers.readline().split()
    if code != "0":
        raise RuntimeError(f"a task of {dag} failed:\n{log.read_text(errors='replace')[-6000:]}")
    return TaskRun(seconds, used, at_server.stop() if at_server else Usage(0.0, 0, 0), float(cpu))


@functools.cache
def _executor(preload: str) -> tuple[IO[str], IO[str]]:
    """Start an executor, which ends with this process. Returns where it reads tasks, and where it tells of them."""
    command = [sys.executable, str(EXECUTOR), *filter(None, [preload])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _plan(shipping: Shipping) -> Planned:
    """What the task before this one hands to it."""
    groups = set(shipping.groups)
    if not groups:
        return batch.plan(shipping.source, shipping.peer, shipping.run_id, shipping.run_id)

    def wanted(queue: RecoveredQueue) -> bool:
        return queue.peer_id == shipping.peer and not groups.isdisjoint(queue.groups)

    (job,) = recovery.plan(shipping.source, wanted, (), shipping.run_id).jobs
    return job


def _connections(source: SourceCluster, place: Place) -> dict[str, str]:
    """Airflow's connections, as environment variables."""
    extra = {"wal_root": source.wal_root, "znode_parent": source.znode_parent}
    spark = {"conn_type": "spark", "host": f"local[{place.slots}]"}
    return {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps({"conn_type": "generic", "host": source.quorum, "extra": extra}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        **({"AIRFLOW_CONN_SPARK_CONNECT": place.server.connection} if place.server else {}),
    }
