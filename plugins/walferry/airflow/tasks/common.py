"""What the tasks of all DAGs share: parameters, the source cluster, retries, and telling the report what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from airflow.sdk import Context, Param, get_current_context
from airflow.sdk.bases.decorator import Task, task_decorator_factory

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.literal import LiteralTask
from walferry.airflow.operators.links import ReplicationLink
from walferry.airflow.retries import RetryIfItHelps
from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.replication.source.cluster import DEFAULT_CONN_ID

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


def default_args(minutes: int) -> dict[str, Any]:
    """A DAG's default arguments: each task may take so many minutes, and is tried again if that can help."""
    return {
        "retries": 2,
        "retry_delay": timedelta(seconds=10),
        "execution_timeout": timedelta(minutes=minutes),
        "retry_policy": RetryIfItHelps(),
    }


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
