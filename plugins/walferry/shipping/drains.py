"""Keeps the queues that a recovery's plan has found. Spark jobs drain these queues, and the report says how each one ended.

    <runs of the peer>/<quoted run id>/(queues)/<number>     Drain as JSON

So no task passes the queues through Airflow's database or on Spark's command line, however many there are. The notes are kept as
long as the run's summaries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from kazoo.exceptions import NoNodeError

from walferry.base.records import NotARecord, Record
from walferry.base.texts import one_line
from walferry.base.zk.client import read_children, retried
from walferry.base.zk.records import decode, encode, put, wrong_record
from walferry.hbase.names import ServerName, parse_queue_id, parse_wal_name
from walferry.replication.source.session import Session
from walferry.shipping.runs import QUEUES, begin_run, run_path

# A recovery may first wait for other runs and then ship: each may take the longest deadline, 7 days.
KEPT_SECONDS = 15 * 86400

MAX_TEXT_CHARS = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Drain(Record):
    """A recovered queue, as the plan found it. Later steps find it by its peer and WAL groups, even if it has moved."""

    peer: str
    server: str  # the server whose znode held the queue
    queue: str  # its id
    dead_server: str  # the server that wrote the WALs
    claimed_by: str  # for people
    groups: tuple[str, ...]
    wals: int
    bytes: int = 0  # bytes to ship, as far as known
    to_ship: tuple[str, ...] = ()  # the groups that need a Spark job
    problem: str = ""  # why the queue cannot be drained
    expected: str = ""  # an error that will stop shipping, if it can be foreseen
    paused: bool = False  # whether the problem is only that the peer is paused

    @property
    def ref(self) -> str:
        """Return the queue as people write it."""
        return f"{self.server}/{self.queue}"


def note_drains(session: Session, peer_id: str, run_id: str, drains: Iterable[Drain]) -> None:
    """Begin the run of a recovery's peer, and note the queues that it drains. Raises ConnectError."""
    begin_run(session, peer_id, run_id, KEPT_SECONDS)
    with suppress(NoNodeError):  # notes of an earlier run with this name, whose DAG run was deleted
        retried(session.zk, session.zk.delete, f"{run_path(session, peer_id, run_id)}/{QUEUES}", recursive=True)
    for number, drain in enumerate(drains):
        put(session.zk, f"{run_path(session, peer_id, run_id)}/{QUEUES}/{number}", encode(drain))


def read_drains(session: Session, peer_id: str, run_id: str) -> list[Drain]:
    """Return the queues that the recovery drains for the peer; empty once the run is no longer kept. Raises ConnectError.

    A note that cannot be read is logged and left out: its queue stays where it is.
    """
    folder = f"{run_path(session, peer_id, run_id)}/{QUEUES}"
    found = []
    for name, znode in read_children(session.zk, folder).items():
        try:
            found.append(_checked(decode(Drain, znode.value), peer_id))
        except NotARecord as error:
            log.error("%s", wrong_record(f"{folder}/{name}", "a queue to drain", error, "It stays where it is"))
    return sorted(found, key=lambda drain: drain.ref)


def _checked(drain: Drain, peer_id: str) -> Drain:
    """Return a drain as it was read back, if its names are names that HBase makes. Raises NotARecord."""
    try:
        for server in (drain.server, drain.dead_server):
            ServerName.parse(server)
        if drain.peer != peer_id or parse_queue_id(drain.queue).peer_id != peer_id:
            raise ValueError(f"{drain.queue!r} is not a queue of peer {peer_id}")
        for group in drain.groups:
            parse_wal_name(f"{group}.1")
    except ValueError as error:
        raise NotARecord(str(error)) from error
    if not {*drain.to_ship} <= {*drain.groups}:
        raise NotARecord("it has groups to ship that are not its own")
    texts = {name: one_line(getattr(drain, name), MAX_TEXT_CHARS) for name in ("claimed_by", "problem", "expected")}
    return replace(drain, **texts)  # type: ignore[arg-type]  # texts stay texts


def groups_to_drain(session: Session, peer_id: str, run_id: str) -> frozenset[str]:
    """Return the WAL groups that the recovery's job ships for the peer. Raises ConnectError."""
    return frozenset(group for drain in read_drains(session, peer_id, run_id) for group in drain.to_ship)
