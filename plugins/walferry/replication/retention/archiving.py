"""Copies shipped WALs to the archive, before they leave their queues.

While a WAL is being copied, its copier has an ephemeral znode under Walferry's root. So a WAL that two peers have shipped at the
same time is copied once: one of them waits until the copy is there. If the copier dies, its znode goes, and another one copies.

A WAL leaves its queue only after its copy has been renamed to its final name. If a run is killed before that, the next run finds
the WAL still queued, with its position at its end, and copies it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kazoo.exceptions import NodeExistsError, NoNodeError

from walferry.base.errors import WalferryError
from walferry.base.zk.client import retried
from walferry.hbase.files.closedness import WalMissing
from walferry.hbase.files.errors import StoreError, UnreadableBytes
from walferry.hbase.names import WalName
from walferry.replication.retention.archive import WalArchive
from walferry.replication.source.session import Session

POLL_SECONDS = 0.5
_NEXT = "The next run copies it. If the archive is not wanted any more, remove `archive` from the source connection's extra"
_LOST = (
    "If the bytes come back, the next run copies it. All of its edits are shipped. Run with broken_wals=quarantine to give up "
    "its copy in the archive: what is left of the file goes to the quarantine, and the WAL leaves the queue"
)


class NotArchived(WalferryError):
    """A shipped WAL could not be copied to the archive, so it stays in its queue."""

    def __init__(self, wal: WalName, archive: str, why: Exception) -> None:
        super().__init__(
            f"WAL {wal} is shipped, but stays queued because it could not be copied to the archive {archive}: {why}",
            _LOST if isinstance(why, UnreadableBytes) and why.lost else _NEXT,
        )


def archive_wal(session: Session, wal: WalName, dead_servers: Sequence[str], stopped: Callable[[], bool]) -> bool:
    """Copy a closed WAL to the source's archive; returns whether this call has copied it. Another copier is waited for.

    Returns False, too, as soon as `stopped` says so. Raises NotArchived, ConnectError.
    """
    archive = WalArchive(session.source.archive or "")
    node = session.own.archiving(wal.text)
    while not stopped():
        if not _created(session, node):
            time.sleep(POLL_SECONDS)
            continue
        try:
            return _copied(session, archive, wal, dead_servers)
        except (StoreError, WalMissing, OSError) as error:
            raise NotArchived(wal, archive.root, error) from error
        finally:
            _delete(session, node)
    return False


def _copied(session: Session, archive: WalArchive, wal: WalName, dead_servers: Sequence[str]) -> bool:
    tried = set()
    while True:
        location = session.store.locate(wal, dead_servers)
        if location is None:
            raise WalMissing(wal.text, session.store.places(wal, dead_servers))
        try:
            return archive.put(wal, location.url)
        except FileNotFoundError:
            if location.url in tried:  # it has not moved, so what is missing is in the archive
                raise
            tried.add(location.url)


def _created(session: Session, node: str) -> bool:
    """Whether this session has the right to copy now. A right that was taken by an earlier try of this call counts."""
    try:
        retried(session.zk, session.zk.create, node, ephemeral=True, makepath=True)
    except NodeExistsError:
        found = retried(session.zk, session.zk.exists, node)
        return found is not None and session.zk.client_id is not None and found.ephemeralOwner == session.zk.client_id[0]
    return True


def _delete(session: Session, node: str) -> None:
    try:
        retried(session.zk, session.zk.delete, node)
    except NoNodeError:  # deleted by an earlier try of this call, or with the session
        return
