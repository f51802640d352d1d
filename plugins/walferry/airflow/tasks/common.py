"""The code that the tasks of all DAGs share: parameters, the source cluster, retries, and problems for the report.

This module keeps a run's reports for as long as the run exists. When a run, or its report, is cleared, Airflow deletes the
report's XCom. Usually nothing is left to ship by then, so the new report alone would show zeros although the run has shipped
edits. So Airflow's task state store, which clearing does not touch, keeps all reports, and each report includes the earlier ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from airflow.sdk import Context, Param, get_current_context
from airflow.sdk.bases.decorator import Task, task_decorator_factory
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from walferry.airflow.endings import leave_note
from walferry.airflow.hooks.hbase import source_of_run
from walferry.airflow.literal import LiteralTask
from walferry.airflow.operators.links import ReplicationLink
from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.failures import say
from walferry.runs.reports.batch import AGES
from walferry.runs.values import run_of

P = ParamSpec("P")
R = TypeVar("R")

MAX_PROBLEM_CHARS = 4000
PROBLEM = "problem"  # the XCom that says in the report why a task failed
KEY = "reports"
MAX_KEPT = 10  # the newest reports of one run are kept whole; of older reports only the totals are kept
# Figures that describe the present state.
NOT_ADDED = ("sizeOfLogQueue", "bytesToShip", "bytesDone", "failedRecoverQueues", *AGES, "timestampOfNextToReplicate")
REPORTED = ("completedLogs", "shippedOps", "shippedBytes")

log = logging.getLogger(__name__)


def peer_param(description: str) -> Param:
    """Return the parameter of DAGs that are for one peer, or for all peers if the parameter is empty."""
    return Param(None, type=["null", "string"], pattern=r"^[^-/\s]*$", title="Peer", description=description)


def one_peer_param() -> Param:
    """Return the parameter of DAGs that are for one managed peer."""
    return Param(None, type=["null", "string"], pattern=r"^[^-/\s]+$", title="Peer", description="Id of the managed peer.")


class PeerTask(LiteralTask):
    """A task made of a function with an argument `peer`. The task's link leads to that peer on the replication page."""

    operator_extra_links = (ReplicationLink(),)

    def execute(self, context: Context) -> Any:
        """Call the function."""
        self.shown = {"source": context["params"]["source_conn_id"], "peer": self.op_kwargs["peer"]}
        return super().execute(context)


def task_of_peer(**kwargs: Any) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Return a decorator that makes a PeerTask of a function."""
    return task_decorator_factory(decorated_operator_class=PeerTask, **kwargs)


def source() -> SourceCluster:
    """Return the cluster that this run's parameter names. Raises SourceError."""
    return source_of_run(get_current_context()["params"])


def identity_of(cluster: SourceCluster) -> str:
    """Return what tells a source cluster from others: a yes counts for one, even if the connection is changed meanwhile."""
    return f"{cluster.quorum} {cluster.znode_parent} {cluster.wal_root}"


def events_of(context: Context) -> list[Any]:
    """Return the asset events that have begun the run."""
    return [event for of_asset in context["triggering_asset_events"].values() for event in of_asset]


@contextmanager
def telling(what: str = "") -> Iterator[None]:
    """Leave an error of the block for the report, as the task's XCom `problem`: the task's name, and the error's text."""
    try:
        yield
    except WalferryError as error:
        ti = get_current_context()["ti"]
        ti.xcom_push(PROBLEM, [name_of(ti), one_line(f"{what}: {error}" if what else str(error), MAX_PROBLEM_CHARS)])
        raise


def name_of(ti: Any) -> str:
    """Return a task instance's name, with its number if it is mapped, as Airflow writes it in the tasks' states."""
    return str(ti.task_id) if ti.map_index in (None, -1) else f"{ti.task_id}_{ti.map_index}"


def tell(report: Mapping[str, Any], text: str, note: str, run_id: str | None) -> None:
    """Log a report together with the reports of earlier attempts, and leave it as XCom and as a line for the run's note.

    `run_id` names the attempt that was planned; None: nothing was planned.
    """
    context = get_current_context()
    ti = context["ti"]
    whole = with_earlier(context, run_id or f"{run_of(ti)}, report {ti.try_number}", report)
    say("\n".join([text, *as_lines(whole)]))
    leave_note(context, note)
    ti.xcom_push("return_value", whole)


def with_earlier(context: Context, attempt: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Add the `totals` of the whole run and the reports of its `earlier` attempts to this report, and keep it for later.

    It replaces a report of the same attempt, but keeps that report's figures if the attempt's summaries are gone by now.
    """
    store = context["task_state_store"]
    try:
        known: Any = store.get(KEY, [])
    except AirflowRuntimeError as error:  # a report of this attempt alone is better than no report
        log.warning("the reports of earlier attempts could not be read: %s", error)
        return {**report, "attempt": attempt, "earlier": []}
    kept: list[dict[str, Any]] = known
    earlier = [entry for entry in kept if entry["attempt"] != attempt or entry.get("peer") != report.get("peer")]
    before = next((entry for entry in kept if entry not in earlier), None)
    mine = {**report, "attempt": attempt}
    if before and _rows(before) and not _rows(report):
        mine = {**before, "ok": report["ok"], "failures": report["failures"]}
    reported = [*earlier, mine]
    now: Any = [*map(_figures, reported[:-MAX_KEPT]), *reported[-MAX_KEPT:]]
    store.set(KEY, now, retention=NEVER_EXPIRE)
    of_same = [entry for entry in earlier if entry.get("peer") == report.get("peer")]
    return {**mine, "totals": added(mine["totals"], [entry["totals"] for entry in of_same]), "earlier": earlier}


def as_lines(report: Mapping[str, Any]) -> list[str]:
    """Return one line for the log about each earlier attempt."""
    return [
        f"Attempt {entry['attempt']} of this run has reported"
        + (f" of peer {entry['peer']}: " if "peer" in entry else ": ")
        + ", ".join(f"{name} {entry['totals'].get(name, 0):,}" for name in REPORTED)
        for entry in report["earlier"]
    ]


def added(totals: Mapping[str, Any], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """Add the totals of earlier attempts. Figures that are not counts stay as they are now, and the last known age is kept."""
    result = dict(totals)
    for other in earlier:
        for name, value in other.items():
            if isinstance(value, dict):
                result[name] = added(result.get(name) or {}, [value])
            elif name not in NOT_ADDED and value is not None:
                result[name] = (result.get(name) or 0) + value
    if result.get("ageOfLastShippedOp", 0) is None:
        ages = [other.get("ageOfLastShippedOp") for other in earlier]
        result["ageOfLastShippedOp"] = next((age for age in reversed(ages) if age is not None), None)
    return result


def _figures(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in ("attempt", "peer", "totals") if name in report}


def _rows(report: Mapping[str, Any]) -> Any:
    return report.get("groups") or report.get("queues")
