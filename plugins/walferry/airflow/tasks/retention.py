"""The tasks of the retention DAG: report → check, and beside them the archive's TTL."""

from __future__ import annotations

from typing import Any

from airflow.sdk import get_current_context

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.tasks.common import source
from walferry.base.findings import Finding
from walferry.runs.failures import Failures, say
from walferry.runs.reports.retention import archive_text


class RetentionWarning(Failures):
    """Thresholds are passed; each line says which, and what to do."""


@task
def report() -> dict[str, Any]:
    """Tell what lies in oldWALs and what keeps it there, as text in the log and as XCom."""
    from walferry.airflow.steps import retention
    from walferry.replication.retention.limits import OldWalLimits

    context = get_current_context()
    check_run(context)
    params = context["params"]
    limits = OldWalLimits(params["warn_held_gib"], params["warn_blocked_hours"], params["warn_days_left"])
    found = retention.report(source(), params["ttl"], limits, params["listed"])
    say(found.as_text())
    return found.to_xcom()


@task
def check(found: dict[str, Any]) -> None:
    """Fail if there are findings, so that they show in the run, and Airflow's callbacks can tell of them."""
    if found["findings"]:
        raise RetentionWarning([Finding(**each).line for each in found["findings"]], "see the log of the task report")
    print("No threshold is passed.")


@task
def expire_archive() -> None:
    """Delete copies of WALs that are older than the archive's TTL."""
    from walferry.airflow.steps import retention

    check_run(get_current_context())
    cluster = source()
    expired = retention.expire_archive(cluster)
    if expired is None:
        print("The source has no archive.")
    else:
        print(archive_text(cluster.archive or "", cluster.archive_days, expired))
