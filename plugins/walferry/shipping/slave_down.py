"""Tells the other groups of a job that the slave is down.

A job may have far more WAL groups than run side by side, and each of them would wait until its patience with the slave is over.
So the first group that gives the slave up leaves a note, and the groups that begin after it end at once:

    <root>/runs/<quoted znode parent>/<quoted peer>     {"run_id": …, "time": seconds since the epoch, "error": …}

A note is trusted for a while; then the group that finds it takes a quick look at the slave.
"""

from __future__ import annotations

import json
import time
from typing import Any

from kazoo.exceptions import NoNodeError

from walferry.hbase.layout import quoted
from walferry.hbase.peers import Peer
from walferry.sinks.of_peer import why_down
from walferry.source.session import Session
from walferry.texts import one_line
from walferry.zk.client import read, retried

TRUSTED_SECONDS = 60.0
MAX_ERROR_CHARS = 4000


def note_down(session: Session, peer_id: str, run_id: str, error: str) -> None:
    """Leave the note for the other groups of the run. Raises ConnectError."""
    _write(session, peer_id, {"run_id": run_id, "time": time.time(), "error": one_line(error, MAX_ERROR_CHARS)})


def forget_down(session: Session, peer_id: str) -> None:
    """Delete the note of an earlier job when a job begins. Raises ConnectError."""
    _write(session, peer_id, {})


def known_down(session: Session, peer: Peer, run_id: str) -> str | None:
    """Why the slave is down, if a group of this run has found out and it still seems to be so. Raises ConnectError."""
    note = _read(session, peer.id)
    if note.get("run_id") != run_id:
        return None
    noted, error = note.get("time"), note.get("error")
    if isinstance(noted, int | float) and isinstance(error, str) and 0 <= time.time() - noted < TRUSTED_SECONDS:
        return one_line(error, MAX_ERROR_CHARS)
    why = why_down(peer, session.source)
    if why is not None:
        note_down(session, peer.id, run_id, why)
    return why


def _read(session: Session, peer_id: str) -> dict[str, Any]:
    """The note; empty if there is none, or one that makes no sense."""
    znode = read(session.zk, _path(session, peer_id))
    try:
        note = json.loads(znode.value) if znode and znode.value else {}
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def _write(session: Session, peer_id: str, note: dict[str, object]) -> None:
    try:
        retried(session.zk, session.zk.set, _path(session, peer_id), json.dumps(note).encode() if note else b"")
    except NoNodeError:  # no run of the peer has begun, so there is no note to delete and no job to tell
        return


def _path(session: Session, peer_id: str) -> str:
    return f"{session.source.root}/runs/{quoted(session.source.znode_parent)}/{quoted(peer_id)}"
