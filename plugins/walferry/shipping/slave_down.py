"""Tells the other groups of a job that the slave is down.

A job may have far more WAL groups than run side by side, and each of them would wait until its patience with the slave is over.
So the first group that gives the slave up leaves a note, and the groups that begin after it end at once:

    <root>/runs/<quoted znode parent>/<quoted peer>     {run id: {"time": seconds since the epoch, "error": …}, …}

Several runs may ship a peer side by side, a batch and drains of dead servers' queues, so each has a note of its own. A note is
trusted for a while; then the group that finds it takes a quick look at the slave.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from kazoo.exceptions import BadVersionError, NoNodeError

from walferry.base.records import NotARecord, parsed_object
from walferry.base.texts import one_line
from walferry.base.zk.client import read, retried
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks.of_peer import why_down
from walferry.replication.source.session import Session

TRUSTED_SECONDS = 60.0
MAX_ERROR_CHARS = 4000
MAX_NOTES = 50  # of one peer: the newest
TRIES = 50  # a try fails if another note is written between the read and the write

log = logging.getLogger(__name__)

Notes = Mapping[str, Mapping[str, Any]]  # by run


def note_down(session: Session, peer_id: str, run_id: str, error: str) -> None:
    """Leave the note for the other groups of the run. Raises ConnectError."""
    note = {"time": time.time(), "error": one_line(error, MAX_ERROR_CHARS)}
    _change(session, peer_id, lambda notes: {**notes, run_id: note})


def forget_down(session: Session, peer_id: str, run_id: str) -> None:
    """Delete the note of the run's earlier job when a job begins. Raises ConnectError."""
    _change(session, peer_id, lambda notes: {run: note for run, note in notes.items() if run != run_id})


def known_down(session: Session, peer: Peer, run_id: str) -> str | None:
    """Why the slave is down, if a group of this run has found out and it still seems to be so. Raises ConnectError."""
    znode = read(session.zk, session.own.runs(peer.id))
    note = notes_in(znode.value).get(run_id) if znode else None
    if note is None:
        return None
    if 0 <= time.time() - note["time"] < TRUSTED_SECONDS:
        return one_line(note["error"], MAX_ERROR_CHARS)
    why = why_down(peer, session.source)
    if why is not None:
        note_down(session, peer.id, run_id, why)
    return why


def notes_in(value: bytes) -> Notes:
    """The notes by run, without those that make no sense."""
    try:
        notes = parsed_object(value) if value else {}
    except NotARecord:
        return {}
    return {run_id: note for run_id, note in notes.items() if _is_note(note)}


def _is_note(note: Any) -> bool:
    return isinstance(note, dict) and isinstance(note.get("time"), int | float) and isinstance(note.get("error"), str)


def _change(session: Session, peer_id: str, change: Callable[[Notes], Notes]) -> None:
    """Change the notes of the peer's runs and keep the newest. Raises ConnectError."""
    path = session.own.runs(peer_id)
    for _ in range(TRIES):
        znode = read(session.zk, path)
        if znode is None:  # no run of the peer has begun, so there is no note to delete and no job to tell
            return
        before = notes_in(znode.value)
        newest = sorted(change(before).items(), key=lambda item: item[1]["time"])[-MAX_NOTES:]
        if dict(newest) == before:
            return
        try:
            retried(session.zk, session.zk.set, path, json.dumps(dict(newest)).encode(), znode.stat.version)
        except BadVersionError:  # another group or run has changed them
            continue
        except NoNodeError:
            return
        return
    log.warning("the notes in %s changed %d times while one was being written", path, TRIES)
