"""The tasks of the retention DAG: report → check, and beside them the archive's TTL."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.tasks.common import source
from walferry.base.findings import Finding
from walferry.runs.failures import Failures, say
from walferry.runs.reports.retention import RetentionReport, archive_text

if TYPE_CHECKING:
    from walferry.replication.retention.limits import OldWalLimits
    from walferry.replication.source.cluster import SourceCluster

DAY_SECONDS = 86400


class RetentionWarning(Failures):
    """Thresholds are passed; each line says which, and what to do."""


@task
def report() -> dict[str, Any]:
    """Tell what lies in oldWALs and what keeps it there, as text in the log and as XCom."""
    from walferry.replication.retention.limits import OldWalLimits

    context = get_current_context()
    check_run(context)
    params = context["params"]
    limits = OldWalLimits(params["warn_held_gib"], params["warn_blocked_hours"], params["warn_days_left"])
    found = report_of(source(), params["ttl"], limits, params["listed"])
    say(found.as_text())
    return found.to_xcom()


def report_of(cluster: SourceCluster, ttl_seconds: float, limits: OldWalLimits, listed: int) -> RetentionReport:
    """Survey oldWALs. Raises WalferryError."""
    from walferry.hbase.files.store import OLD_WALS
    from walferry.replication.retention.limits import exceeded
    from walferry.replication.retention.survey import survey
    from walferry.replication.source.session import open_session

    with open_session(cluster, look_only=True) as session:
        found = survey(session, ttl_seconds, time.time)
    return RetentionReport(f"{cluster.wal_root}/{OLD_WALS}", found, exceeded(found, limits), listed)


@task
def check(found: dict[str, Any]) -> None:
    """Fail if there are findings, so that they show in the run, and Airflow's callbacks can tell of them."""
    if found["findings"]:
        raise RetentionWarning([Finding(**each).line for each in found["findings"]], "see the log of the task report")
    print("No threshold is passed.")


@task
def expire_archive() -> None:
    """Delete copies of WALs that are older than the archive's TTL."""
    from walferry.replication.retention.archive import WalArchive
    from walferry.replication.retention.expiry import expire

    check_run(get_current_context())
    cluster = source()
    if cluster.archive is None:
        print("The source has no archive.")
        return
    expired = expire(WalArchive(cluster.archive), cluster.archive_days * DAY_SECONDS)
    print(archive_text(cluster.archive, cluster.archive_days, expired))
