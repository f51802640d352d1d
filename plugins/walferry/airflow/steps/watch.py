"""The step of the watching DAG: one look at the source. It writes nothing but samples of the history."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from kazoo.exceptions import KazooException

from walferry.base.errors import WalferryError
from walferry.observe.status.describing import unreachable
from walferry.observe.status.history import record
from walferry.observe.status.model import SourceStatus
from walferry.observe.status.statuses import Statuses
from walferry.replication.retention.survey import OldWalSurvey
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session

LOOK_SECONDS = 5.0  # for files and slaves; what takes longer is told as unknown
OLD_WALS_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watched:
    """What one look has seen; oldWALs is None if it was not looked at."""

    status: SourceStatus
    old_wals: OldWalSurvey | None


def look(source: Callable[[], SourceCluster], with_old_wals: bool) -> Watched:
    """Look at the source, and record how its peers stand. What goes wrong is told by the status."""
    try:
        cluster = source()
    except WalferryError as error:
        return Watched(unreachable(str(error), time.time()), None)
    statuses = Statuses(LOOK_SECONDS, LOOK_SECONDS)
    status = statuses.of(cluster)
    if status.unreachable is not None:
        return Watched(status, None)
    try:
        with open_session(cluster, look_only=True) as session:
            record(session, status)
    except (WalferryError, KazooException) as error:
        log.warning("the history was not recorded: %s", str(error) or repr(error))
    return Watched(status, _old_wals(statuses, cluster) if with_old_wals else None)


def _old_wals(statuses: Statuses, cluster: SourceCluster) -> OldWalSurvey:
    found = statuses.old_wals(cluster, OLD_WALS_SECONDS)
    if found is None:
        found = OldWalSurvey(time.time(), f"oldWALs was not listed within {OLD_WALS_SECONDS:g} s")
    if found.problem:
        log.warning("nothing is known of oldWALs: %s", found.problem)
    return found
