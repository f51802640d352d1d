"""Ship what is queued for the managed peers of a source cluster, in micro-batches.

For each peer: `roll` has the RegionServers begin new WALs, `plan` looks what lies in closed ones, `ship` is the Spark job,
`report` says what was shipped and ends as failed if anything was not. A managed peer is one that is DISABLED and has
`walferry.managed=true` in its configuration; no other peer is touched.

Every task may be cleared, retried or killed at any time: the only state is in ZooKeeper, where a position never passes an edit
that the slave has not acknowledged.

The DAG cannot be backfilled: a WAL is shipped once, from where the positions are, whatever the date of the run. To ship what is
queued now, trigger a run. Shipping an interval again is not possible yet.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import (
    ExceptionRetryPolicy,
    Param,
    RetryAction,
    RetryRule,
    TriggerRule,
    dag,
    get_current_context,
    task_group,
)

from walferry.airflow.forms.run_checks import RUN_TYPES, check_run
from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.literal import label, task
from walferry.airflow.operators.ship_wals import BROKEN_WALS, ShipWalsOperator

if TYPE_CHECKING:
    from walferry.source.cluster import SourceCluster

PARAMS = {
    "source_conn_id": Param(
        "hbase_source",
        type="string",
        minLength=1,
        title="Source cluster",
        description="Airflow connection of the cluster whose replication queues are shipped.",
    ),
    "peer": Param(
        None,
        type=["null", "string"],
        pattern=r"^[^-/\s]*$",
        title="Peer",
        description="Id of one peer; empty for all peers that are managed by Walferry.",
    ),
    "roll": Param(
        True,
        type="boolean",
        title="Roll WALs first",
        description="Have the RegionServers begin new WALs, so that all edits written until now are shipped. "
        "Without it only WALs that HBase has rolled itself are.",
    ),
    "deadline": Param(
        1800,
        type="integer",
        minimum=10,
        maximum=86400,
        title="Deadline",
        description="Seconds from the Spark job's start after which it stops reading and retrying; a call that the slave is at "
        "work on may still end. The rest stays queued for the next batch.",
    ),
    "broken_wals": BROKEN_WALS,
}
# Trying again does not help against these.
FINAL = [
    "walferry.source.cluster.SourceError",
    "walferry.hbase.errors.PeerError",
    "walferry.hbase.errors.StorageError",
    "walferry.airflow.forms.recovery_input.InputError",
    "walferry.airflow.reports.batch.BatchFailed",
]
PEER_NAME = label("task.op_kwargs['peer']")  # so pass it by name


@dag(
    schedule="*/5 * * * *",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    allowed_run_types=RUN_TYPES,
    description="Ship what is queued for the managed HBase replication peers of a cluster",
    params=PARAMS,
    default_args={
        "retries": 2,
        "retry_delay": timedelta(seconds=10),
        "execution_timeout": timedelta(minutes=10),
        "retry_policy": ExceptionRetryPolicy(rules=[RetryRule(exception=FINAL, action=RetryAction.FAIL)]),
    },
    doc_md=__doc__,
    tags=["hbase", "replication"],
)
def replicate_peer() -> None:
    @task
    def peers() -> list[str]:
        """The peers of this run: the one asked for, or all that are managed now."""
        from walferry.airflow.steps import batch

        context = get_current_context()
        check_run(context)
        asked = context["params"]["peer"]
        return [asked] if asked else batch.managed_peers(_source())

    @task(map_index_template=PEER_NAME)
    def roll(peer: str) -> None:
        from walferry.airflow.steps import batch

        context = get_current_context()
        if not context["params"]["roll"]:
            print("Not asked to roll.")
            return
        rolled = batch.roll(_source(), peer)
        print(f"{rolled.servers} RegionServers have begun new WALs.")
        problems = [f"roll of {server}: {why}" for server, why in rolled.failures.items()]
        context["ti"].xcom_push("problems", problems)
        if problems:
            raise RuntimeError("; ".join(problems))

    # Also if the roll failed: what lies in closed WALs is shipped all the same, and the report tells.
    @task(map_index_template=PEER_NAME, trigger_rule=TriggerRule.ALL_DONE)
    def plan(peer: str) -> dict[str, Any]:
        from walferry.airflow.steps import batch

        ti = get_current_context()["ti"]
        return batch.plan(_source(), peer, f"{batch.run_of(ti)}.{ti.try_number}")  # a cleared plan begins a new count

    @task(map_index_template=PEER_NAME, trigger_rule=TriggerRule.ALL_DONE)
    def report(peer: str, planned: dict[str, Any] | None) -> None:
        from walferry.airflow.reports.batch import BatchFailed, as_dict, as_text, failures
        from walferry.airflow.reports.kept import as_lines, with_earlier
        from walferry.airflow.steps import batch

        context = get_current_context()
        ti = context["ti"]
        if planned:
            states = {step: _state(ti, step) for step in ("roll", "ship")}
            problems = ti.xcom_pull(task_ids="peer.roll", key="problems", map_indexes=ti.map_index) or []
            summaries = batch.summaries(_source(), peer, planned["run_id"])
            reasons = failures(planned, states, problems, summaries)
        else:
            summaries = []
            reasons = [batch.refusal(_source(), peer) or f"plan is {_state(ti, 'plan')}: see its log; nothing was shipped"]
        attempt = planned["run_id"] if planned else f"{batch.run_of(ti)}, report {ti.try_number}"
        told = with_earlier(context, attempt, as_dict(peer, planned, reasons, summaries))
        print("\n".join([as_text(peer, planned, reasons, summaries), *as_lines(told)]))
        ti.xcom_push("return_value", told)
        if reasons:
            raise BatchFailed("; ".join(reasons[:10]))

    @task_group(group_id="peer")
    def batch_of(peer: str) -> None:
        planned = plan(peer=peer)
        ship = ShipWalsOperator(
            task_id="ship",
            peer=peer,
            plan=planned,
            retries=1,
            map_index_template=label("task.peer"),
            max_active_tis_per_dagrun=4,
        )
        roll(peer=peer) >> planned >> ship >> report(peer=peer, planned=planned)

    batch_of.expand(peer=peers())


def _source() -> SourceCluster:
    return HBaseSourceHook(get_current_context()["params"]["source_conn_id"]).get_conn()


def _state(ti: Any, step: str) -> str | None:
    """How a step of this task's branch has ended."""
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[f"peer.{step}"], run_ids=[ti.run_id], map_index=ti.map_index)
    return next(iter(states[ti.run_id].values()), None)


replicate_peer()
