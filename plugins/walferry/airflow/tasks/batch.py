"""The tasks of a batch: peers → roll → for each peer plan → ship → report.

A peer that fails, waits or takes long does not delay the others: each has a branch of its own, and runs overlap.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from airflow.sdk import TriggerRule, get_current_context

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import label, task
from walferry.airflow.operators.made_together import SHIPPED_BY
from walferry.airflow.operators.ship_wals import LEFT_TO, PEER_DOWN, ShipWalsOperator
from walferry.airflow.operators.spark_job import BY_SPARK_SUBMIT
from walferry.airflow.states import state_of
from walferry.airflow.tasks.common import PROBLEM, events_of, source, task_of_peer, tell, telling
from walferry.runs.failures import Failures
from walferry.runs.reports.batch import BatchFailed, BatchReport, Steps
from walferry.runs.values import ChosenPeers, Planned, RollReport, run_of

PEER_NAME = label("task.op_kwargs['peer']")  # pass the peer by name, for this label
GROUP = "peer"  # the task group that is mapped over the peers
CHOSEN, ROLLED = "chosen", "rolled"  # XComs


class RollFailed(Failures):
    """Some RegionServers did not begin new WALs. The edits in closed WALs are shipped, and the next batch rolls again."""


@task
def peers() -> list[str]:
    """Return the peers of this run: the chosen one, those that its events have announced, or all peers that are managed now."""
    from walferry.runs.steps import batch

    context = check_run()
    chosen = batch.choose(source(), context["params"]["peer"])
    context["ti"].xcom_push(CHOSEN, chosen.to_xcom())
    due = batch.announced(events_of(context))
    return [peer for peer in chosen.peers if due is None or peer in due.peers]


@task
def roll() -> None:
    """Make the RegionServers that need it begin new WALs, once for all managed peers, or for the chosen one."""
    from walferry.runs.steps import batch

    context = get_current_context()
    due = batch.announced(events_of(context))
    if not context["params"]["roll"] or (due is not None and not due.roll):
        print("Not asked to roll.")
        return
    chosen = _chosen(context["ti"])
    rolled = batch.roll(source(), [peer for peer in chosen.peers if peer not in chosen.refused])
    if rolled is None:
        print("There is no peer to roll for.")
        return
    print(
        f"{rolled.servers} RegionServers have begun new WALs. {rolled.spared} others have written nothing that a peer may want."
    )
    context["ti"].xcom_push(ROLLED, rolled.to_xcom())
    if rolled.problems:
        raise RollFailed(rolled.problems, "see the warnings above")


# Runs also if the roll failed: the closed WALs are shipped all the same, and the report names the failure.
@task_of_peer(map_index_template=PEER_NAME, trigger_rule=TriggerRule.ALL_DONE)
def plan(peer: str) -> dict[str, Any]:
    """Return what the batch has to ship for the peer."""
    from walferry.runs.steps import batch

    ti = get_current_context()["ti"]
    attempt = f"{run_of(ti)}.{ti.try_number}"  # a cleared plan begins a new count
    with telling():
        planned = batch.plan(source(), peer, attempt, run_of(ti), _chosen(ti))
    print(planned.left_to or f"{planned.wals:,} WALs of {planned.groups:,} WAL groups, at least {planned.bytes:,} bytes to ship.")
    return planned.to_xcom()


@task_of_peer(map_index_template=PEER_NAME, trigger_rule=TriggerRule.ALL_DONE)
def report(peer: str, planned: dict[str, Any] | None) -> None:
    """Report what was shipped for the peer, as text in the log and as XCom. Fails if anything was not shipped."""
    from walferry.runs.steps import batch

    ti = get_current_context()["ti"]
    ours = Planned.from_xcom(planned) if planned else None
    shipped = batch.summaries(source(), peer, ours.run_id) if ours else ()
    steps = _steps(ti)
    if any(each.shippedOps for each in shipped):
        steps = replace(steps, ahead_ms=batch.ahead_ms(source(), peer))
    done = BatchReport(peer, ours, steps, shipped, int(time.time() * 1000))
    tell(done.to_xcom(), done.as_text(), done.note, ours.run_id if ours else None)
    if done.failures:
        raise BatchFailed(done.failures)


def batch_of(peer: str) -> None:
    """Wire one peer's branch."""
    planned = plan(peer=peer)
    ship = ShipWalsOperator(
        task_id="ship",
        peer=peer,
        plan=planned,  # type: ignore[arg-type]
        retries=1,
        map_index_template=label("task.peer"),
    )
    planned >> ship >> report(peer=peer, planned=planned)  # type: ignore[arg-type]


def _chosen(ti: Any) -> ChosenPeers:
    return ChosenPeers.from_xcom(ti.xcom_pull(task_ids="peers", key=CHOSEN))


def _steps(ti: Any) -> Steps:
    """Return how the run's roll, and this branch's plan and ship, have ended."""

    def reported(step: str, key: str) -> Any:
        return ti.xcom_pull(task_ids=f"{GROUP}.{step}", key=key, map_indexes=ti.map_index)

    xcom = ti.xcom_pull(task_ids="roll", key=ROLLED)
    rolled = RollReport.from_xcom(xcom) if xcom else RollReport(0)
    return Steps(
        plan=state_of(ti, f"{GROUP}.plan", ti.map_index),
        ship=state_of(ti, f"{GROUP}.ship", ti.map_index),
        roll=state_of(ti, "roll"),
        refusal=(reported("plan", PROBLEM) or ("", ""))[1],
        unrolled=rolled.problems,
        roll_warnings=rolled.warnings,
        left_to=reported("ship", LEFT_TO) or "",
        peer_down=reported("ship", PEER_DOWN) or "",
        by_spark_submit=reported("ship", BY_SPARK_SUBMIT) or "",
        shipped_by=reported("ship", SHIPPED_BY) or "",
    )
