"""The common tasks of the DAGs of recovery: claim → plan → drain → clean up → report, and their parameters.

    claim       mapped by server; a retry goes on with its run's claim, and waits for another run's claim
    plan        lists the queues where they lie now, and takes WALs with nothing to ship out of them, unless another run holds
                their group
    drain       mapped by peer: one Spark job drains all queues of the peer that `plan` has noted in ZooKeeper
    clean_up    removes the znodes of the dead servers, once they are empty
    report      fails if a queue was not drained, and the run fails with it

A failed server or queue stops no other. The only state is in ZooKeeper, so every task may be cleared, retried or killed.

If people choose the queues, the tasks select → approve → gone_peers come before these. The drains do not wait for the approval.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param, TriggerRule, XComArg, get_current_context

from walferry.airflow.forms import choices
from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import label, task
from walferry.airflow.operators.approval import MAX_LINES, PersonDecidesOperator, request, what_was_approved
from walferry.airflow.operators.ship_wals import NOT_KEPT, ShipWalsOperator
from walferry.airflow.operators.spark_job import BY_SPARK_SUBMIT
from walferry.airflow.tasks.common import PROBLEM, name_of, source, tell, telling
from walferry.base.amounts import count
from walferry.runs.failures import Failures, ReportedFailures
from walferry.runs.reports.recovery import Recovery, as_dict, as_text, note
from walferry.runs.values import MAX_TEXT_CHARS, Claimed, Selected, run_of

if TYPE_CHECKING:
    from walferry.shipping.drains import Drain


class RecoveryFailed(ReportedFailures):
    """A recovery did not do all of its work."""


DEADLINE = Param(
    3600,
    type="integer",
    minimum=10,
    maximum=604800,
    title="Deadline",
    description="Seconds after which the Spark job of a peer stops reading and retrying. The rest stays queued; the run fails.",
)
ALSO = "gone_peers"  # the task whose lines `also` contains, if the DAG has it
SELECTED = "selected"  # the XCom in which the first task leaves the queues that were chosen by hand
ORPHANS = "orphans"  # the same, for queues whose peer is gone
ASKS = "asks"  # the XCom with what a person is asked
DRAINS = "drains"  # the XCom in which plan leaves where it has noted all queues, also queues that need no job
MAX_NOTES = 200  # of select's lines that the report repeats
MAX_REMOVED = 500  # names of servers in an XCom
CLAIM_RETRIES = 6  # while another run claims the server: a claim takes seconds, a killed claimer's session 20 s to end
DRAIN_RETRIES = 3  # of a job that was killed or could not start, or whose queues another run drained first

log = logging.getLogger(__name__)


def recover(first: str, servers: Any, also: Any = None) -> None:
    """Wire the steps: claim what is left of `servers`, then drain the chosen queues, or else the claimed ones.

    `first` is the task that chose them. It may leave lines for the report as its XCom `notes`, and the chosen queues as
    `selected`. `also` may return more lines.
    """
    planned = plan(first, claim.expand(server=servers))
    drains = ShipWalsOperator.partial(
        task_id="drain", recovery=True, retries=DRAIN_RETRIES, map_index_template=label("task.peer")
    ).expand_kwargs(planned)
    drains >> clean_up() >> report(first, also)


@task(map_index_template=label("task.op_kwargs['server']"), retries=CLAIM_RETRIES, retry_delay=timedelta(seconds=15))
def claim(server: str) -> dict[str, Any]:
    """Claim the server's queues."""
    from walferry.runs.steps import recovery

    ti = get_current_context()["ti"]
    with telling(f"claim of {server}"):
        claimed = recovery.claim(source(), server, run_of(ti))
    print(f"{server}: {claimed.moved} queues moved by this try.")
    for why in claimed.left:
        log.warning("left to others: %s", why)
    return replace(claimed, task=name_of(ti)).to_xcom()


# Runs also if a claim failed: the other servers' queues are drained all the same, and the report names the failure.
@task(trigger_rule=TriggerRule.ALL_DONE)
def plan(first: str, claims: Any) -> list[dict[str, Any]]:
    """Return the drains' arguments, peer by peer. The queues that each drain ships are noted in ZooKeeper."""
    from walferry.runs.steps import recovery

    context = get_current_context()
    ti = context["ti"]
    claimed = _that_succeeded(list(claims[:]) if claims else (), _states(ti))  # by one request
    run_id = f"{run_of(ti)}.{ti.try_number}"  # a cleared plan begins a new count
    selected = ti.xcom_pull(task_ids=first, key=SELECTED)
    wanted = recovery.wanted_by_hand(Selected.from_xcom(selected)) if selected else recovery.wanted_by_claims(claimed)
    with telling("plan"):
        planned = recovery.plan(source(), wanted, {claim.server for claim in claimed}, run_id)
    for drain in planned.drains:
        print(f"{drain.ref}: {drain.problem or f'{drain.wals:,} WALs, at least {drain.bytes:,} bytes to ship'}")
    choices.refresh(source(), context["params"]["source_conn_id"])
    ti.xcom_push(DRAINS, {"run_id": run_id, "peers": planned.peers, "queues": len(planned.drains)})
    return [{"peer": job.peer, "plan": job.to_xcom()} for job in planned.jobs]


@task(trigger_rule=TriggerRule.ALL_DONE)
def clean_up() -> list[str]:
    """Remove the empty queues and znodes of dead servers, unless another run claims the server."""
    from walferry.runs.steps import recovery

    ti = get_current_context()["ti"]
    claims = _that_succeeded(ti.xcom_pull(task_ids=["claim"]), _states(ti))
    servers = {*(claim.server for claim in claims), *(drain.dead_server for drain in _drains(ti) if not drain.problem)}
    removed = recovery.clean_up(source(), servers, run_of(ti))
    print(f"Removed: {', '.join(removed) or 'nothing'}.")
    return removed[:MAX_REMOVED]


@task(trigger_rule=TriggerRule.ALL_DONE)
def report(first: str, also: Sequence[str] | None) -> None:
    """Report what was done and what is left, as text in the log and as XCom."""

    context = get_current_context()
    ti = context["ti"]
    recovered = _recovered(ti, first, also or ())
    tell(as_dict(recovered), as_text(recovered), note(recovered), _noted(ti)["run_id"] if recovered.drained else None)
    choices.refresh(source(), context["params"]["source_conn_id"])
    if recovered.failures:
        raise RecoveryFailed(recovered.failures)


def _recovered(ti: Any, first: str, also: Sequence[str]) -> Recovery:
    """Return what the run's tasks have done, and the present state in ZooKeeper."""
    from walferry.runs.steps import recovery

    states = _states(ti)
    jobs = {job["peer"]: states.get(f"drain_{number}") for number, job in enumerate(ti.xcom_pull(task_ids="plan") or ())}
    reported = dict(problem for problem in ti.xcom_pull(task_ids=[first, ALSO, "claim", "plan"], key=PROBLEM) or () if problem)
    by_submit = {why for why in ti.xcom_pull(task_ids=["drain"], key=BY_SPARK_SUBMIT) or () if why}
    drains, noted = _drains(ti), _noted(ti)
    lost = noted["queues"] - len(drains)
    through = [f"Drained through spark-submit: {why}" for why in sorted(by_submit)]
    # Without drains: a drain's failure shows in its queue's outcome.
    failed = sorted(name for name, state in states.items() if state == "failed" and not name.startswith("drain_"))
    return Recovery(
        claims=_that_succeeded(ti.xcom_pull(task_ids=["claim"]), states),
        drained=recovery.outcome(source(), drains, noted["run_id"], jobs),
        notes=[*(ti.xcom_pull(task_ids=first, key="notes") or ()), *also, *through],
        problems=[
            *(reported.get(name) or f"{name} is failed: see its log" for name in failed),
            *([f"{lost:,} of {noted['queues']:,} queues: {NOT_KEPT}"] if lost else ()),
        ],
        removed=ti.xcom_pull(task_ids="clean_up") or (),
    )


def _noted(ti: Any) -> dict[str, Any]:
    """Return where the plan has noted the run's drains."""
    return ti.xcom_pull(task_ids="plan", key=DRAINS) or {"run_id": "", "peers": (), "queues": 0}


def _drains(ti: Any) -> list[Drain]:
    from walferry.runs.steps import recovery

    noted = _noted(ti)
    return recovery.drains_of(source(), noted["peers"], noted["run_id"])


def _states(ti: Any) -> dict[str, str | None]:
    """Return how the run's tasks have ended, mapped tasks by number."""
    states: dict[str, str | None] = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id])[ti.run_id]
    return states


def _that_succeeded(claims: Sequence[dict[str, Any] | None] | None, states: Mapping[str, str | None]) -> list[Claimed]:
    """Return the claims of this try of the run.

    A task instance's XComs are deleted when it starts again. If a run is cleared and then has fewer servers, the XComs of the
    task instances that no longer exist are still there.
    """
    every = [Claimed.from_xcom(claim) for claim in claims or () if claim]
    return [claim for claim in every if states.get(claim.task) == "success"]


@task
def select() -> list[str]:
    """Choose the queues to drain. A dry run chooses none, and reports what would be done with them.

    Returns the dead servers that still have unclaimed queues.
    """
    from walferry.runs.steps import recovery

    context = get_current_context()
    params, ti = context["params"], context["ti"]
    with telling("select"):
        check_run()
        selected = recovery.select(source(), params["peer"] or "", params["queue"] or "", params["delete_orphan"])
        notes = recovery.preview(source(), selected, params["delete_orphan"]) if params["dry_run"] else selected.notes
    print("\n".join(notes))
    ti.xcom_push("notes", [note[:MAX_TEXT_CHARS] for note in notes[:MAX_NOTES]])
    if params["dry_run"]:
        selected = recovery.NONE_SELECTED
    ti.xcom_push(SELECTED, selected.to_drain.to_xcom())
    ti.xcom_push(ORPHANS, selected.to_delete.to_xcom())
    asks: dict[str, Any] = {}
    if params["delete_orphan"] and selected.orphans:
        shown = selected.orphans[:MAX_LINES]
        more = len(selected.orphans) - len(shown)
        others = f" {more:,} more are left to other runs." if more else ""
        question = f"Delete {count(len(shown), 'queue')} whose peer is gone? Their edits will never be replicated.{others}"
        lines = recovery.preview_orphans(source(), shown, "would be deleted")
        asks = request(question, lines, [recovery.contents_of(queue) for queue in shown])
    ti.xcom_push(ASKS, asks)
    choices.refresh(source(), params["source_conn_id"])
    return selected.servers


def approve_deletion(chosen: Any) -> Any:
    """Wire the task that asks a person before queues are deleted unshipped. Returns the decision."""
    return PersonDecidesOperator(task_id="approve", asks=XComArg(chosen.operator, key=ASKS)).output


@task
def gone_peers(decision: Any) -> list[str]:
    """Report the queues whose peer is gone, or delete them."""
    from walferry.runs.steps import recovery

    context = get_current_context()
    ti = context["ti"]
    orphans = Selected.from_xcom(ti.xcom_pull(task_ids="select", key=ORPHANS))
    with telling():
        delete = context["params"]["delete_orphan"]
        shown, refusal = what_was_approved(decision) if delete else ([], "")
        dealt = recovery.deal_with_orphans(source(), orphans, delete, run_of(ti), shown=shown, refusal=refusal)
        print("\n".join(dealt.lines) or "There are none.")
        lines = [line[:MAX_TEXT_CHARS] for line in dealt.lines[:MAX_NOTES]]
        if dealt.problems:
            ti.xcom_push("return_value", lines)  # for the report
            raise Failures(dealt.problems, "see `notes` in the report")
    return lines
