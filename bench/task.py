"""Airflow's task that ships, as Airflow runs it: in a process that is forked from one that has imported Airflow.

It reads the DAG's file, looks for the peer cluster, ships, and ends. The job goes through a Spark Connect server, or
spark-submit.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import TreeUsage, Usage
from embedded.spark_connect import ConnectServer
from walferry.replication.queues.dead_servers import RecoveredQueue
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch, recovery
from walferry.runs.values import Planned

DAGS = Path(__file__).resolve().parents[1] / "dags"
DEADLINE_SECONDS = 1800


@dataclass(frozen=True)
class Shipping:
    """What a task is to do. `server`: through which it ships, None: through spark-submit. `cores`: which its processes get, None:
    all. `slots`: how many Spark tasks spark-submit runs at once."""

    source: SourceCluster
    peer: str
    run_id: str
    sink: str
    groups: Sequence[str] = ()
    server: ConnectServer | None = None
    cores: Sequence[int] | None = None
    slots: int = 2


@dataclass(frozen=True)
class TaskRun:
    """How a task went. Times are in seconds."""

    seconds: float  # from its start to its end
    shipping: float  # of these, while the WAL groups were being shipped
    own_cpu: float  # of the processes that ship, meanwhile; 0 if that is not known
    used: Usage  # by the task and its children
    server: Usage  # by the Spark Connect server with its Python processes


class TaskInstance:
    """As much of Airflow's task instance as the operator asks for."""

    dag_id, try_number, map_index = "bench", 1, -1

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id

    def xcom_push(self, key: str, value: Any) -> None:
        """What a report would say: a batch that went another way than it should have must not count."""
        raise RuntimeError(f"{key}: {value}")


def import_airflow() -> None:
    """Import what Airflow's executor has imported before it forks."""
    import airflow.sdk.execution_time.task_runner  # noqa: F401


def run_task(shipping: Shipping, log: Path) -> TaskRun:
    """Fork the task and wait for its end; its output goes to `log`. Raises RuntimeError if it fails."""
    import_airflow()
    peer, run_id = shipping.peer, shipping.run_id
    planned = _plan(shipping).to_xcom()
    at_server = TreeUsage(shipping.server.pid) if shipping.server else None
    began = time.monotonic()
    if (pid := os.fork()) == 0:
        _be_the_task(shipping, planned, log)
    usage = TreeUsage(pid)
    _, status = os.waitpid(pid, 0)
    seconds, used = time.monotonic() - began, usage.stop()
    if status:
        raise RuntimeError(f"the task of peer {peer} failed:\n{log.read_text(errors='replace')[-6000:]}")
    groups = batch.summaries(shipping.source, peer, run_id)
    if others := {g.sink for g in groups if g.shippedCells} - {shipping.sink}:
        raise RuntimeError(f"the edits were sent otherwise: {others}; {[g.notLoaded or g.directRefused for g in groups]}")
    return TaskRun(
        seconds, max(g.seconds for g in groups), sum(g.cpuSeconds for g in groups), used,
        at_server.stop() if at_server else Usage(0.0, 0, 0),
    )  # fmt: skip


def _plan(shipping: Shipping) -> Planned:
    """What the task before this one hands to it."""
    groups = set(shipping.groups)
    if not groups:
        return batch.plan(shipping.source, shipping.peer, shipping.run_id, shipping.run_id)

    def wanted(queue: RecoveredQueue) -> bool:
        return queue.peer_id == shipping.peer and not groups.isdisjoint(queue.groups)

    (job,) = recovery.plan(shipping.source, wanted, (), shipping.run_id).jobs
    return job


def _be_the_task(shipping: Shipping, planned: dict[str, Any], log: Path) -> None:
    """What the forked process does. It does not return."""
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    try:
        _ship(shipping, planned)
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


def _ship(shipping: Shipping, planned: dict[str, Any]) -> None:
    """What the process of Airflow's task `ship` does."""
    os.environ.update(_connections(shipping))
    if shipping.cores is not None:
        os.sched_setaffinity(0, shipping.cores)
    sys.path.insert(0, str(DAGS))
    import replicate_peer  # type: ignore[import-not-found]  # noqa: F401

    from walferry.airflow.operators.ship_wals import ShipWalsOperator

    params = {
        "deadline": DEADLINE_SECONDS, "broken_wals": "stop", "sink": shipping.sink, "hfiles_from": None,
        "source_conn_id": "hbase_source",
    }  # fmt: skip
    context: Any = {"params": params, "ti": TaskInstance(shipping.run_id)}
    operator = ShipWalsOperator(task_id="ship", peer=shipping.peer, plan=planned, recovery=bool(shipping.groups))
    operator.pre_execute(context)
    operator.execute(context)


def _connections(shipping: Shipping) -> dict[str, str]:
    """Airflow's connections, as environment variables."""
    source = shipping.source
    extra = {"wal_root": source.wal_root, "znode_parent": source.znode_parent}
    spark = {"conn_type": "spark", "host": f"local[{shipping.slots}]"}
    return {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps({"conn_type": "generic", "host": source.quorum, "extra": extra}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        **({"AIRFLOW_CONN_SPARK_CONNECT": shipping.server.connection} if shipping.server else {}),
    }
