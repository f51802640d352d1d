"""Lets the first group that finds the peer cluster down save a job's other groups the wait.

A job may have far more WAL groups than run side by side, and each of them would wait until its patience with the peer cluster is
over. So the first group that gives the peer cluster up leaves a note, and the groups that begin after it end at once:

    <root>/runs/<quoted znode parent>/<quoted peer>     {run id: {"time": seconds since the epoch, "error": …}, …}

Several runs may ship a peer side by side, a batch and drains of dead servers' queues, so each run has its own note. A note is
trusted for a while. After that, a group that finds it takes a quick look at the peer cluster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from walferry.base.records import Record
from walferry.base.texts import one_line
from walferry.base.zk.client import read
from walferry.base.zk.errors import Contention
from walferry.base.zk.records import decode_each, encode, update
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks.of_peer import why_down
from walferry.replication.source.session import Session

TRUSTED_SECONDS = 60.0
MAX_ERROR_CHARS = 4000
MAX_NOTES = 50  # the newest notes of one peer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DownNote(Record):
    """When a group of a run found the peer cluster down (seconds since the epoch), and why."""

    time: float
    error: str


Notes = Mapping[str, DownNote]  # by run


def note_down(session: Session, peer_id: str, run_id: str, error: str) -> None:
    """Leave the note for the other groups of the run. Raises ConnectError."""
    note = DownNote(time.time(), one_line(error, MAX_ERROR_CHARS))
    _change(session, peer_id, lambda notes: {**notes, run_id: note})


def forget_down(session: Session, peer_id: str, run_id: str) -> None:
    """Delete the note of the run's earlier job when a job begins. Raises ConnectError."""
    _change(session, peer_id, lambda notes: {run: note for run, note in notes.items() if run != run_id})


def known_down(session: Session, peer: Peer, run_id: str) -> str | None:
    """Return why the peer cluster is down, if a group of this run has noted it and it still seems to be. Raises ConnectError."""
    znode = read(session.zk, session.own.runs(peer.id))
    note = notes_in(znode.value).get(run_id) if znode else None
    if note is None:
        return None
    if 0 <= time.time() - note.time < TRUSTED_SECONDS:
        return one_line(note.error, MAX_ERROR_CHARS)
    why = why_down(peer, session.source)
    if why is not None:
        note_down(session, peer.id, run_id, why)
    return why


def notes_in(value: bytes) -> Notes:
    """Return the notes by run, without invalid ones."""
    return decode_each(DownNote, value)


def _change(session: Session, peer_id: str, change: Callable[[Notes], Notes]) -> None:
    """Change the notes of the peer's runs and keep the newest. Raises ConnectError."""

    def changed(value: bytes | None) -> bytes | None:
        if value is None:  # no run of the peer has begun, so no note has to be deleted, and no job needs one
            return None
        before = notes_in(value)
        newest = dict(sorted(change(before).items(), key=lambda item: item[1].time)[-MAX_NOTES:])
        return None if newest == before else encode({run_id: asdict(note) for run_id, note in newest.items()})

    try:
        update(session.zk, session.own.runs(peer_id), changed)
    except Contention as error:
        log.warning("%s", error)
