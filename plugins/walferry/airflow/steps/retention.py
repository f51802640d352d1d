"""The steps of the retention DAG. They only read, but for copies in the archive whose time is over."""

from __future__ import annotations

import time

from walferry.airflow.reports.retention import RetentionReport
from walferry.files.store import OLD_WALS
from walferry.retention.archive import WalArchive
from walferry.retention.expiry import Expired, expire
from walferry.retention.forecast import forecast
from walferry.retention.limits import Limits, exceeded
from walferry.retention.survey import Fate, survey
from walferry.source.cluster import SourceCluster
from walferry.source.session import open_session

DAY_SECONDS = 86400


def report(source: SourceCluster, ttl_seconds: float, limits: Limits, listed: int) -> RetentionReport:
    """Survey oldWALs. Raises WalferryError."""
    with open_session(source, look_only=True) as session:
        found = survey(session, ttl_seconds, time.time)
        held = [each.wal for each in found.wals if each.fate is Fate.HELD]
        until_full = forecast(session.store, held, found.at)
    url = f"{source.wal_root}/{OLD_WALS}"
    return RetentionReport(url, found, until_full, exceeded(found, until_full, limits), listed)


def expire_archive(source: SourceCluster) -> Expired | None:
    """Delete copies that are older than the archive's TTL; None if the source has no archive. Raises StoreError."""
    if source.archive is None:
        return None
    return expire(WalArchive(source.archive), source.archive_days * DAY_SECONDS)
