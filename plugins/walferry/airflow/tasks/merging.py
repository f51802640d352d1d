"""The tasks that merge a lake's changes into its tables of state: peers → for each peer merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context, get_current_context

from walferry.airflow.endings import ends_plainly
from walferry.airflow.forms.run_checks import check_conf
from walferry.airflow.literal import label, task
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.airflow.tasks.common import source
from walferry.runs.values import run_of


@task
def peers() -> list[str]:
    """Return the peers of this run: the chosen one, or all managed peers whose edits go into a lake. Checks the parameters."""
    from walferry.replication.source.peers import read_peers
    from walferry.replication.source.session import open_session

    context = get_current_context()
    run, params = context["dag_run"], context["params"]
    check_conf(run.dag_id, run.conf or {}, context["dag"].params.keys(), params)
    if params["peer"]:
        return [params["peer"]]
    with open_session(source(), look_only=True) as session:
        return sorted(peer.id for peer in read_peers(session).peers if peer.managed and peer.lake)


def merging_tasks() -> None:
    """Wire the tasks."""
    MergeChangesOperator.partial(
        task_id="merge", retries=1, map_index_template=label("task.peer"), execution_timeout=None
    ).expand(peer=peers())


class MergeChangesOperator(SparkJobOperator):
    """Brings the tables of state of the lake of `peer` up to date, all or those of the run's parameter `tables`.

    A killed or failed job may be submitted again at any time.

    :param peer: the id of the peer
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "peer")

    def __init__(self, *, peer: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.peer = peer

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Submit the job and wait for it."""
        from walferry.state_tables.merge_run import MergeRun

        params: Mapping[str, Any] = context["params"]
        run = MergeRun(
            source=self.source_for(params["source_conn_id"], self.peer), peer_id=self.peer, run_id=run_of(context["ti"]),
            tables=tuple(params["tables"] or ()),
        )  # fmt: skip
        self.tables_of_job = run.tables
        self.run_job(context, run)
