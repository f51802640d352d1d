"""Which sources the page shows, and what is known of each.

A viewer may not choose any connection. Only the connections in Airflow's configuration are shown, in section [walferry] as
`page_sources`, separated by commas, or as AIRFLOW__WALFERRY__PAGE_SOURCES.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from walferry.base.texts import one_line
from walferry.observe.status.cached import Cached
from walferry.observe.status.history import Sample
from walferry.observe.status.model import SourceStatus
from walferry.observe.status.statuses import Statuses
from walferry.replication.retention.survey import OldWalSurvey
from walferry.replication.source.cluster import DEFAULT_CONN_ID, SourceCluster, SourceError

CONNECTION_SECONDS = 30.0  # how long a connection is kept: a secrets backend may be slow
WAIT_SECONDS = 10.0
LOOK_SECONDS = 2.0  # how long a look is kept
PATIENCE_SECONDS = 0.5  # how long a viewer waits for a new look, while there is an older one
FIRST_SECONDS = 15.0  # how long a viewer waits for the first look
MORE_SECONDS = 0.3  # after its begin a look stops waiting for files, peer clusters and oldWALs; a refresh has them seconds later
MAX_PROBLEM_CHARS = 1000
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]*@")
_SECRETS = re.compile(r"""(?i)((?:password|passwd|secret|token)[\w.-]*["']?\s*[=:]\s*["']?)[^&\s,;'"]+""")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShownSource:
    """The status of a source. If nothing can be known of it, `problem` says why."""

    conn_id: str
    problem: str | None = None
    status: SourceStatus | None = None
    histories: Mapping[str, Sequence[Sample]] = field(default_factory=dict)  # by peer
    old_wals: OldWalSurvey | None = None  # None: oldWALs is being listed for the first time
    asked_ms: int = 0  # when a viewer asked


class Sources:
    """The sources of Airflow's configuration, which `read_connection` finds. Its methods may be called from any thread."""

    def __init__(self, read_connection: Callable[[str], SourceCluster] | None = None) -> None:
        self._statuses = Statuses(MORE_SECONDS, MORE_SECONDS, from_begin=True)
        self._connections = Cached(read_connection or _read_connection, CONNECTION_SECONDS, WAIT_SECONDS)
        self._looks = Cached(self._look, LOOK_SECONDS, PATIENCE_SECONDS)

    def names(self) -> list[str]:
        """Return the ids of the connections that are shown."""
        from airflow.configuration import conf

        listed = conf.get("walferry", "page_sources", fallback=DEFAULT_CONN_ID).split(",")
        return list(dict.fromkeys(name.strip() for name in listed if name.strip()))

    def look(self, conn_id: str) -> ShownSource:
        """Return the status of a source, or its last known status if a new look takes long.

        It never raises: the status says what is wrong, without secrets and without a traceback.
        """
        found, began = None, time.monotonic()
        while found is None and time.monotonic() - began < FIRST_SECONDS:
            found = self._looks.get(conn_id)
        if found is None:
            return ShownSource(
                conn_id, f"the first look at it is not at its end after {FIRST_SECONDS:g} s; come again in a moment"
            )
        return replace(found, asked_ms=int(time.time() * 1000))

    def _look(self, conn_id: str) -> ShownSource:
        try:
            source = self._connections.get(conn_id)
            if source is None:
                return ShownSource(conn_id, f"Airflow has not given connection {conn_id!r} within {WAIT_SECONDS:g} s")
            began = time.monotonic()
            status = self._statuses.of(source)
            old_wals = None if status.unreachable else self._statuses.old_wals(source, began + MORE_SECONDS - time.monotonic())
            return ShownSource(conn_id, None, status, self._statuses.histories(source), old_wals)
        except SourceError as error:
            return ShownSource(conn_id, without_secrets(str(error)))
        except Exception:
            log.exception("the page cannot look at the source %r", conn_id)
            return ShownSource(conn_id, "an unexpected error, which the api server's log has")


def without_secrets(text: str) -> str:
    """Return the text as one bounded line, without anything that may be a password in a URL or a setting."""
    return one_line(_SECRETS.sub(r"\1…", _CREDENTIALS.sub("…@", text)), MAX_PROBLEM_CHARS)


def _read_connection(conn_id: str) -> SourceCluster:
    from walferry.airflow.hooks.hbase import HBaseSourceHook

    return HBaseSourceHook(conn_id).get_conn()
