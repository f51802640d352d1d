"""Notes how far a load is, for the Airflow task that waits for it, wherever Spark's driver runs.

    <root>/loading/<quoted "znode parent/peer/run">     ephemeral: text

The note ends with the session of the driver that wrote it, so a kill leaves nothing to clean up.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from walferry.base.closing import Closing
from walferry.base.texts import one_line
from walferry.base.zk.client import connect, disconnect, read
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, writing_session

MAX_CHARS = 1000

log = logging.getLogger(__name__)


class LoadNote(Closing):
    """The note of one run."""

    def __init__(self, source: SourceCluster, peer_id: str, run_id: str) -> None:
        self._source = source
        self._peer_id = peer_id
        self._run_id = run_id
        self._lock = threading.Lock()
        self._zk: KazooClient | None = None
        self._path = ""
        self._ended = False

    def tell(self, text: str) -> None:
        """Write `text` into the note, from any thread. If that fails, the load goes on."""
        with self._lock:
            if self._ended:
                return
            try:
                if self._zk is None:
                    self._zk = connect(self._source.quorum, login=self._source.login)
                    self._path = writing_session(self._source, self._zk).own.loading(self._peer_id, self._run_id)
                value = one_line(text, MAX_CHARS).encode()
                with suppress(NodeExistsError):
                    self._zk.create(self._path, value, ephemeral=True, makepath=True)
                    return
                self._zk.set(self._path, value)
            except Exception as error:
                log.info("how far the load is cannot be noted: %s", error)

    def close(self) -> None:
        """Delete the note."""
        with self._lock:
            self._ended = True
            if self._zk is not None:
                disconnect(self._zk)


def read_load_note(session: Session, peer_id: str, run_id: str) -> str:
    """Return how far the run's load is; empty if it loads nothing now. Raises ConnectError."""
    found = read(session.zk, session.own.loading(peer_id, run_id))
    return one_line(found.value[: 4 * MAX_CHARS].decode(errors="replace"), MAX_CHARS) if found else ""
