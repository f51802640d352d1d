"""The tasks of a verification: peers → for each peer compare, and beside it clocks → report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from airflow.sdk import Context, TriggerRule, get_current_context

from walferry.airflow.endings import ends_plainly, leave_note
from walferry.airflow.forms.run_checks import check_conf
from walferry.airflow.literal import label, task
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.airflow.tasks.common import source, state_of, task_of_peer
from walferry.runs.failures import say
from walferry.runs.reports.verification import VerificationFailed, VerificationReport
from walferry.runs.values import run_of

PEER_NAME = label("task.op_kwargs['peer']")
GROUP = "peer"


@task
def peers() -> list[str]:
    """The peers of this run: the one asked for, or all that are managed now. Checks the parameters."""
    from walferry.runs.steps import verification

    context = get_current_context()
    run, params = context["dag_run"], context["params"]
    check_conf(run.dag_id, run.conf or {}, context["dag"].params.keys(), params)
    verification.options_of(params)
    return verification.choose(source(), params["peer"])


@task_of_peer(map_index_template=PEER_NAME)
def clocks(peer: str) -> dict[str, Any]:
    """How far the clocks of the RegionServers on both sides are from this machine's."""
    from walferry.runs.steps import verification

    found = verification.clocks(source(), peer)
    return {side: [asdict(skew) for skew in skews] for side, skews in found.items()}


# Also if the job failed: what it has found until then is told.
@task_of_peer(map_index_template=PEER_NAME, trigger_rule=TriggerRule.ALL_DONE)
def report(peer: str) -> None:
    """Tell how the two sides compare, as text in the log and as XCom; fails if they differ."""
    from walferry.runs.steps import verification

    ti: Any = get_current_context()["ti"]
    state = state_of(ti, f"{GROUP}.compare", ti.map_index)
    measured = ti.xcom_pull(task_ids=f"{GROUP}.clocks", map_indexes=ti.map_index) or {}
    found = VerificationReport(peer, verification.result(source(), peer, run_of(ti)), state, measured)
    say(found.as_text())
    leave_note(get_current_context(), found.note)
    ti.xcom_push("return_value", found.to_xcom())
    if found.failures:
        raise VerificationFailed(found.failures)


def verification_of(peer: str) -> None:
    """Wire one peer's branch."""
    compare = VerifyPeerOperator(task_id="compare", peer=peer, retries=1, map_index_template=label("task.peer"))
    [compare, clocks(peer=peer)] >> report(peer=peer)


class VerifyPeerOperator(SparkJobOperator):
    """Compares the tables of `peer`, with the run's parameters.

    A killed or failed job may be submitted again at any time.
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "peer")

    def __init__(self, *, peer: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.peer = peer

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Submit the job and wait for it."""
        from walferry.runs.steps import verification
        from walferry.verification.verify_run import VerifyRun

        params: Mapping[str, Any] = context["params"]
        source = self.source_for(params["source_conn_id"], self.peer)
        run = VerifyRun(
            source=source, peer_id=self.peer, run_id=run_of(context["ti"]), tables=tuple(params["tables"] or ()),
            options=verification.options_of(params),
        )  # fmt: skip
        self.run_job(context, run)
