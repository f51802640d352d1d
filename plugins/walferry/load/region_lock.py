"""Lets a copy's tasks load into a region of the peer cluster one at a time.

    <root>/initial-snapshots/<quoted znode parent>/<quoted peer>/+locks/<attempt>,<region>  base/zk/fenced_lock.py, during a load

Several regions of the source may lie in one of the peer cluster's regions. A load flushes its region, and a load that meets a
flush gets no number (load/numbered.py). The locks avoid most of these meetings. Nothing depends on them: the peer cluster may
flush by itself, other clients may load as well, and a region that was split or merged has another name. So each load's number is
checked, too. Tasks of a run that was overtaken are not waited for: they load nothing more (fence.py), but one may hang in a call.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from walferry.base.errors import WalferryError
from walferry.base.zk.errors import Contention
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import quoted
from walferry.replication.source.session import Session

LOCKS = "+locks"  # no table's name begins like this
WAIT_SECONDS = 600.0  # longer than a load takes, even if the peer cluster hangs
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 1.0

log = logging.getLogger(__name__)


class _Taken(WalferryError):
    """Another task is loading into the region, or this task has lost its lock. A signal, not an error."""


@contextmanager
def holding_region(session: Session, peer_id: str, attempt: str, region: str) -> Iterator[None]:
    """Load into a region of the peer cluster alone, for the length of a block; after a long wait, not alone. Raises ConnectError.

    `attempt` is the attempt of the run to which the task belongs.
    """
    path = f"{session.own.initial_snapshot(peer_id)}/{LOCKS}/{quoted(f'{attempt},{region}')}"
    lock = _wait(session, path, region)
    try:
        yield
    finally:
        if lock is not None:
            lock.release(forget=True)


def _wait(session: Session, path: str, region: str) -> FencedLock | None:
    give_up, pause = time.monotonic() + WAIT_SECONDS, _FIRST_PAUSE_SECONDS
    while time.monotonic() < give_up:
        lock = FencedLock(
            session.zk, path, lambda holder, since: _Taken(holder), _Taken
        )  # a lock whose session has ended stays lost
        try:
            lock.acquire("a task of an initial snapshot")
            return lock
        except (_Taken, Contention):
            time.sleep(pause * (1 + random.random()))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    log.warning(
        "for %g s other tasks have been loading into region %s of the peer cluster: waiting no longer", WAIT_SECONDS, region
    )
    return None
