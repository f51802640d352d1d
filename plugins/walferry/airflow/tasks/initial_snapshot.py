"""The tasks of an initial snapshot: check → copy → ship → report, and after the copy, whatever came of it, clean_up."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context, TriggerRule, get_current_context

from walferry.airflow.endings import ends_plainly
from walferry.airflow.forms.run_checks import check_run, peer_of
from walferry.airflow.literal import task
from walferry.airflow.operators.run_batch import RunBatchOperator
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.airflow.tasks.common import source
from walferry.base.texts import one_line
from walferry.runs.input import tables_of
from walferry.runs.values import run_of

MAX_TABLES = 100  # in the XCom
MAX_LINE_CHARS = 20_000

log = logging.getLogger(__name__)


@task
def check() -> dict[str, list[str]]:
    """Check whether the copy may begin. The log lists all tables with their families, the XCom the first ones."""
    from walferry.initial_snapshot.beginning import check_queued
    from walferry.initial_snapshot.job import CopyRun, tables_to_copy
    from walferry.load.copy_records import Records
    from walferry.replication.source.agreement import check_peer
    from walferry.replication.source.session import open_session

    context = check_run()
    params, run, peer_id = context["params"], run_of(context["ti"]), peer_of(context)
    cluster = source()
    with open_session(cluster) as session:
        peer = check_peer(session, peer_id)
        check_queued(session, peer_id)
        state = Records(session, peer_id).state()
        if state is not None and state.complete and state.run == run:
            found: dict[str, list[str]] = {table: [] for table in state.tables}
        else:
            tables, allow = tuple(tables_of(params)), params["allow_not_empty"]
            request = CopyRun(source=cluster, peer_id=peer_id, run_id=run, tables=tables, allow_not_empty=allow)
            chosen = tables_to_copy(session, peer, request)
            found = {table.name: [family.decode(errors="replace") for family in table.families] for table in chosen}
    for table, families in found.items():
        print(one_line(f"{table}: {', '.join(families) or 'copied already'}", MAX_LINE_CHARS))
    return dict(list(found.items())[:MAX_TABLES])


# Runs also after a job that was killed, which could not delete its snapshots itself.
@task(trigger_rule=TriggerRule.ALL_DONE)
def clean_up() -> None:
    """Delete snapshots that the copy has left at the source. Another run's snapshots are left to that run."""
    from walferry.initial_snapshot.snapshots import delete_snapshots
    from walferry.replication.locks.peer_lock import turn_of
    from walferry.replication.source.session import open_session

    context = check_run()
    deleted: Sequence[str] = ()
    if peer_id := context["params"]["peer"]:
        with open_session(source()) as session:
            if (other := turn_of(session, peer_id, run_of(context["ti"])).other) is None:
                deleted = delete_snapshots(session, peer_id)
            else:
                log.info("snapshots are left to another run: %s", other)
    print(f"Deleted {', '.join(deleted)}." if deleted else "No snapshot is left.")


@task
def report() -> dict[str, Any]:
    """Report what was copied. The XCom contains the same as the log."""
    from walferry.load.copy_records import Records
    from walferry.replication.source.session import open_session

    with open_session(source()) as session:
        state = Records(session, get_current_context()["params"]["peer"]).state()
    reported = {} if state is None else json.loads(state.to_json())
    for name, value in reported.items():
        print(one_line(f"{name}: {value}", MAX_LINE_CHARS))
    return reported


def initial_snapshot_tasks(conn_id: str) -> None:
    """Wire the tasks of a source's DAG."""
    copy = CopyTablesOperator(task_id="copy", execution_timeout=None)
    ship = RunBatchOperator(task_id="ship", conn_id=conn_id)
    check() >> copy >> ship >> report()
    copy >> clean_up()


class CopyTablesOperator(SparkJobOperator):
    """Copies the tables of a new peer, by the run's parameters `peer`, `tables` and `allow_not_empty`.

    The job has no deadline. A killed or failed job may be submitted again at any time: it goes on with the regions that are left.
    """

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Submit the job and wait for it."""
        from walferry.initial_snapshot.job import CopyRun

        params = context["params"]
        source = self.source_for(params["source_conn_id"], params["peer"])
        run = CopyRun(
            source=source, peer_id=params["peer"], run_id=run_of(context["ti"]), tables=tuple(tables_of(params)),
            allow_not_empty=bool(params["allow_not_empty"]),
        )  # fmt: skip
        self.tables_of_job = run.tables
        self.run_job(context, run)
