"""Copies a group's finished WALs to the archive, beside the shipping: a slow or broken archive delays no edit and no position."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from walferry.hbase.files.errors import UnreadableBytes
from walferry.replication.retention.archive import NotArchived, archive_wal
from walferry.replication.source.session import Session
from walferry.shipping.candidates import Candidate

log = logging.getLogger(__name__)


class Archiver:
    """A thread that copies one WAL after the other, from the first one that is added on.

    After an error nothing more is copied: what is wrong with the archive is the same for the next WAL. `on_error` is told once.
    A WAL whose own bytes cannot be had goes without a copy if `give_up` returns True for its number and the error.
    """

    def __init__(
        self, session: Session, on_error: Callable[[BaseException], None], give_up: Callable[[int, UnreadableBytes], bool]
    ) -> None:
        self.wanted = session.source.archive is not None
        self._session = session
        self._on_error = on_error
        self._give_up = give_up
        self._wals: SimpleQueue[tuple[int, Candidate] | None] = SimpleQueue()
        self._copied: set[int] = set()
        self._added = 0
        self._ended = threading.Event()

    @property
    def pending(self) -> bool:
        """Whether WALs are still to be copied."""
        return len(self._copied) < self._added and not self._ended.is_set()

    def add(self, number: int, wal: Candidate) -> None:
        """Copy the WAL with this number in the group's row. It is closed, and its last edit is acknowledged."""
        self._added += 1
        self._wals.put((number, wal))
        if self._added == 1:
            threading.Thread(target=self._run, name="archiver", daemon=True).start()

    def has(self, number: int) -> bool:
        """Whether the WAL's copy is in the archive, or given up."""
        return number in self._copied

    def stop(self) -> None:
        """Copy no further WAL. A copy under way may still be finished."""
        self._ended.set()
        self._wals.put(None)

    def _archive(self, number: int, wal: Candidate) -> None:
        try:
            if archive_wal(self._session, wal.queued.name, wal.dead_servers, self._ended.is_set):
                log.info("WAL %s is copied to the archive", wal.queued.name)
        except NotArchived as error:
            if not (isinstance(error.__cause__, UnreadableBytes) and self._give_up(number, error.__cause__)):
                raise

    def _run(self) -> None:
        while (following := self._wals.get()) is not None and not self._ended.is_set():
            number, wal = following
            try:
                self._archive(number, wal)
            except Exception as error:
                log.error("%s", error)
                self._on_error(error)
                self._ended.set()
                return
            if not self._ended.is_set():
                self._copied.add(number)
