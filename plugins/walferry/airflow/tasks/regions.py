"""The tasks of the DAGs for regions of HBase 1: report → act → check, and start → report → check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Param, get_current_context

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.tasks.common import source
from walferry.base.findings import Finding
from walferry.runs.failures import Failures, say

if TYPE_CHECKING:
    from walferry.master.work import WorkTerms

IN_LOG = "see the log of the task before this one"
ROLE_PARAMS = {  # of a run that acts as the cluster's master
    "limit_minutes": Param(
        10, type="number", minimum=0, maximum=10_000, title="Minutes in one state",
        description="How long a live RegionServer may take to open or close a region before the region counts as stuck.",
    ),
    "wait_minutes": Param(
        30, type="number", minimum=0, maximum=600, title="Minutes to wait",
        description="How long a run waits for regions to come to their end, as the cluster's master. Then it fails.",
    ),
    "host": Param(
        None, type=["null", "string"], maxLength=253, title="Host",
        description="The name under which RegionServers reach this run while it is their master; empty: the worker's full name.",
    ),
    "listen": Param(
        None, type=["null", "string"], maxLength=253, title="Listen on",
        description="The worker's address to listen on; empty: that of the host.",
    ),
    "port": Param(
        0, type="integer", minimum=0, maximum=65535, title="Port",
        description="The port under which RegionServers reach this run; 0: any free one.",
    ),
}  # fmt: skip


class RegionsWarning(Failures):
    """Regions need an operator; each line names a region and says what to do."""


@task
def report() -> dict[str, Any]:
    """Tell which regions are in transition or not served, and what would be done, as text in the log and as XCom."""
    from walferry.airflow.steps import regions

    context = get_current_context()
    check_run(context)
    found = regions.report(source(), 60 * context["params"]["limit_minutes"])
    say(found.as_text())
    return found.to_xcom()


@task
def act(before: dict[str, Any]) -> dict[str, Any]:
    """Do what the report says, unless this is a dry run. Returns the report of how things stand afterwards."""
    from walferry.airflow.steps import regions

    if get_current_context()["params"]["dry_run"]:
        print("This is a dry run: nothing was done. Trigger a run with dry_run off to do what the report says.")
        return before
    found = regions.act(source(), terms(), print)
    say(found.as_text())
    return found.to_xcom()


@task
def start() -> None:
    """Start a cluster without its HMaster."""
    from walferry.airflow.steps import regions

    context = get_current_context()
    check_run(context)
    params = context["params"]
    regions.emergency_start(source(), params["confirm"] or "", terms(), params["min_servers"], print)


@task
def check(after: dict[str, Any]) -> None:
    """Fail if regions need people, so that they show in the run, and Airflow's callbacks can tell of them."""
    if after["findings"]:
        raise RegionsWarning([Finding(**each).line for each in after["findings"]], IN_LOG)
    print("No region is stuck.")


def terms() -> WorkTerms:
    """How this run has the master's role, by its parameters."""
    from walferry.master.work import WorkTerms

    context = get_current_context()
    params, ti = context["params"], context["ti"]
    name = f"{ti.dag_id} {ti.run_id} {ti.task_id}"
    limit, wait = 60 * params["limit_minutes"], 60 * params["wait_minutes"]
    return WorkTerms(name, name, params["host"] or None, params["listen"] or None, params["port"], limit, wait)
