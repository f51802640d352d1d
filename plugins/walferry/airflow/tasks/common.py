"""What the tasks of all DAGs share: parameters, the source cluster, retries, and telling the report what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from airflow.sdk import Context, Param, get_current_context
from airflow.sdk.bases.decorator import Task, task_decorator_factory

from walferry.airflow.endings import RetryIfItHelps, leave_note
from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.kept_reports import as_lines, with_earlier
from walferry.airflow.literal import LiteralTask
from walferry.airflow.operators.links import ReplicationLink
from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.replication.source.cluster import DEFAULT_CONN_ID
from walferry.runs.failures import say
from walferry.runs.values import run_of

if TYPE_CHECKING:
    from walferry.replication.source.cluster import SourceCluster

P = ParamSpec("P")
R = TypeVar("R")

MAX_PROBLEM_CHARS = 4000
PROBLEM = "problem"  # the XCom that tells the report why a task has failed
SOURCE = Param(
    DEFAULT_CONN_ID,
    type="string",
    minLength=1,
    title="Source cluster",
    description="Airflow connection of the cluster whose replication queues are shipped.",
)


def dag_args(*, minutes: int, retries: int = 2, about: str = "replication") -> dict[str, Any]:
    """Arguments that DAGs have in common: each task may take so many minutes, and is tried again if that can help."""
    default_args = {
        "retries": retries,
        "retry_delay": timedelta(seconds=10),
        "execution_timeout": timedelta(minutes=minutes),
        "retry_policy": RetryIfItHelps(),
    }
    start = datetime(2025, 1, 1, tzinfo=UTC)
    return {"start_date": start, "catchup": False, "default_args": default_args, "tags": ["hbase", about]}


def peer_param(description: str) -> Param:
    """The parameter of DAGs that are for one peer, or for all if it is empty."""
    return Param(None, type=["null", "string"], pattern=r"^[^-/\s]*$", title="Peer", description=description)


class PeerTask(LiteralTask):
    """A task made of a function with an argument `peer`, which leads to that peer on the replication page."""

    operator_extra_links = (ReplicationLink(),)

    def execute(self, context: Context) -> Any:
        """Call the function."""
        self.shown = {"source": context["params"]["source_conn_id"], "peer": self.op_kwargs["peer"]}
        return super().execute(context)


def task_of_peer(**kwargs: Any) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a PeerTask of a function."""
    return task_decorator_factory(decorated_operator_class=PeerTask, **kwargs)


def source() -> SourceCluster:
    """The cluster that this run's parameter names. Raises SourceError."""
    return HBaseSourceHook(get_current_context()["params"]["source_conn_id"]).get_conn()


@contextmanager
def telling(what: str = "") -> Iterator[None]:
    """Leave what goes wrong in the block to the report, as the task's XCom `problem`: the task's name, and what it says."""
    try:
        yield
    except WalferryError as error:
        ti = get_current_context()["ti"]
        ti.xcom_push(PROBLEM, [name_of(ti), one_line(f"{what}: {error}" if what else str(error), MAX_PROBLEM_CHARS)])
        raise


def name_of(ti: Any) -> str:
    """A task instance's name, with its number if it is mapped, as Airflow tells states."""
    return str(ti.task_id) if ti.map_index in (None, -1) else f"{ti.task_id}_{ti.map_index}"


def state_of(ti: Any, task_id: str, map_index: int = -1) -> str | None:
    """How a task of the run has ended."""
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[task_id], run_ids=[ti.run_id], map_index=map_index)
    return next(iter(states[ti.run_id].values()), None)


def tell(report: Mapping[str, Any], text: str, note: str, run_id: str | None) -> None:
    """Tell a report, with those of earlier attempts: as text in the log, as XCom, and as a line for the run's note.

    `run_id` names the attempt that was planned; None: nothing was.
    """
    context = get_current_context()
    ti = context["ti"]
    whole = with_earlier(context, run_id or f"{run_of(ti)}, report {ti.try_number}", report)
    say("\n".join([text, *as_lines(whole)]))
    leave_note(context, note)
    ti.xcom_push("return_value", whole)
