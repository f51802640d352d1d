"""The tasks of a verification: peers → for each peer compare, and beside it clocks → report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow.sdk import TriggerRule, get_current_context

from walferry.airflow.endings import leave_note
from walferry.airflow.forms.run_checks import check_conf
from walferry.airflow.literal import label, task
from walferry.airflow.operators.verify_peer import VerifyPeerOperator
from walferry.airflow.tasks.common import source, task_of_peer
from walferry.runs.failures import say
from walferry.runs.reports.verification import VerificationFailed, VerificationReport

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
    states = ti.get_task_states(
        dag_id=ti.dag_id, task_ids=[f"{GROUP}.compare"], run_ids=[ti.run_id], map_index=ti.map_index
    )  # fmt: skip
    state = next(iter(states[ti.run_id].values()), None)
    measured = ti.xcom_pull(task_ids=f"{GROUP}.clocks", map_indexes=ti.map_index) or {}
    found = VerificationReport(peer, verification.result(source(), peer, verification.run_of(ti)), state, measured)
    say(found.as_text())
    leave_note(get_current_context(), found.note)
    ti.xcom_push("return_value", found.to_xcom())
    if found.failures:
        raise VerificationFailed(found.failures)


def verification_of(peer: str) -> None:
    """Wire one peer's branch."""
    compare = VerifyPeerOperator(task_id="compare", peer=peer, retries=1, map_index_template=label("task.peer"))
    [compare, clocks(peer=peer)] >> report(peer=peer)
