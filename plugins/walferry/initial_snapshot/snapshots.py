"""Takes snapshots of the source's tables for one initial snapshot, and deletes them when it ends.

A snapshot keeps its files from being deleted, but not from being moved to the archive. If an initial snapshot is killed, the next
one deletes its snapshots.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from walferry.base.errors import WalferryError
from walferry.hbase.cluster import master as active_master
from walferry.hbase.files.systems import list_folder
from walferry.hbase.names import in_snapshot_name
from walferry.hbase.rpc import master
from walferry.hbase.tables.snapshots import SNAPSHOTS
from walferry.replication.locks.peer_lock import turn_of_attempt
from walferry.replication.source.session import Session

_BEGUN = f"{SNAPSHOTS}/.tmp"  # where HBase puts a snapshot together
BEGUN_SECONDS = 180.0
KEPT_SECONDS = 90 * 86_400  # longer than any copy: without it, a default of the source's could delete the snapshot earlier
_POLL_SECONDS = 0.5

log = logging.getLogger(__name__)

TakeSnapshot = Callable[[str], str]
"""Takes a snapshot of a table, and returns its name."""


@contextmanager
def snapshots(session: Session, peer_id: str, attempt: str) -> Iterator[TakeSnapshot]:
    """Yield a function that takes snapshots, in an attempt that holds the peer lock. Raises RpcError, ClusterError.

    An attempt that another run has overtaken leaves its snapshots to that run, which deletes all of the peer's snapshots.
    """
    taken: list[str] = []
    delete_snapshots(session, peer_id)

    def take(table: str) -> str:
        name = f"{_prefix(peer_id)}{int(time.time() * 1000)}-{len(taken)}"
        taken.append(name)
        with master.connect(active_master(session.zk, session.nodes), login=session.source.login) as source:
            master.take_snapshot(source, name, table, KEPT_SECONDS)
        return name

    try:
        yield take
    finally:
        try:
            if turn_of_attempt(session, peer_id, attempt) is not None:
                delete_snapshots(session, peer_id)
        except WalferryError as error:
            log.warning("snapshots of the initial snapshot of peer %s are left (%s): %s", peer_id, ", ".join(taken), error)


def delete_snapshots(session: Session, peer_id: str) -> list[str]:
    """Delete snapshots left by the peer's initial snapshots, of which only one may run. Returns names. Raises WalferryError."""
    prefix = _prefix(peer_id)
    _await_begun(session, prefix)
    with master.connect(active_master(session.zk, session.nodes), login=session.source.login) as source:
        found = [name for name in master.completed_snapshots(source) if name.startswith(prefix)]
        for name in found:
            master.delete_snapshot(source, name)
    return found


def _prefix(peer_id: str) -> str:
    """Return the text with which the names of the peer's snapshots begin, and of no other peer's."""
    return f"walferry-initial-snapshot-{in_snapshot_name(peer_id)}-"


def _await_begun(session: Session, prefix: str) -> None:
    """Wait for snapshots that a killed job has begun: HBase completes them, and until then they cannot be deleted."""
    folder = f"{session.source.hbase_root}/{_BEGUN}"
    give_up = time.monotonic() + BEGUN_SECONDS
    while begun := list_folder(folder, lambda name: name.startswith(prefix)):
        if time.monotonic() > give_up:  # a master that dies may leave the folder behind
            log.warning("not waiting any longer for snapshots that are neither complete nor gone: %s", ", ".join(begun))
            return
        time.sleep(_POLL_SECONDS)
