"""Looks at the sources that the page shows, so that none of them is waited for because of another one.

A viewer may not choose any connection: `access` says which sources of Airflow's configuration are looked at.
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
from walferry.replication.source.cluster import SourceCluster, SourceError

CONNECTION_SECONDS = 30.0  # how long a connection is kept: a secrets backend may be slow
WAIT_SECONDS = 10.0
LOOK_SECONDS = 2.0  # how long a look is kept
PATIENCE_SECONDS = 0.5  # how long a viewer waits for a new look, while there is an older one
FIRST_SECONDS = 15.0  # how long a viewer waits for a first look, while nothing is known of any source
OTHERS_SECONDS = 2.0  # the same, while another source can be shown already
MORE_SECONDS = 0.3  # after its begin a look stops waiting for files, peer clusters and oldWALs; a refresh has them seconds later
MAX_PROBLEM_CHARS = 1000
_NOT_YET = "the first look at it is not at its end; come again in a moment"
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
    """Sources whose connections `read_connection` finds. Its methods may be called from any thread."""

    def __init__(self, read_connection: Callable[[str], SourceCluster] | None = None) -> None:
        self._statuses = Statuses(MORE_SECONDS, MORE_SECONDS, from_begin=True)
        self._connections = Cached(read_connection or _read_connection, CONNECTION_SECONDS, WAIT_SECONDS)
        self._looks = Cached(self._look, LOOK_SECONDS, PATIENCE_SECONDS)

    def look(self, conn_ids: Sequence[str]) -> list[ShownSource]:
        """Return the status of each source, or its last known status if a new look takes long.

        It never raises: the status says what is wrong, without secrets and without a traceback.
        """
        began = time.monotonic()
        for conn_id in conn_ids:
            self._looks.get(conn_id, 0.0)  # all looks begin at once
        found = self._found(conn_ids)
        while None in found and time.monotonic() - began < (OTHERS_SECONDS if any(found) else FIRST_SECONDS):
            found = self._found(conn_ids)
        asked_ms = int(time.time() * 1000)
        return [
            ShownSource(conn_id, _NOT_YET) if each is None else replace(each, asked_ms=asked_ms)
            for conn_id, each in zip(conn_ids, found, strict=True)
        ]

    def _found(self, conn_ids: Sequence[str]) -> list[ShownSource | None]:
        """Wait for new looks for as long as a viewer has patience. Return what is known then."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        return [self._looks.get(conn_id, max(0.0, give_up - time.monotonic())) for conn_id in conn_ids]

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
