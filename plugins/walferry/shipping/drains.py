"""The queues of a recovery, as its plan has found them: its Spark jobs drain these, and its report says what became of each.

    <runs of the peer>/<quoted run id>/(queues)/<number>     Drain as JSON

So however many there are, no task hands them to another through Airflow's database, nor to Spark on a command line. They are kept
as long as the run's summaries beside them.
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

# Before its report a recovery may wait for other runs, and then ship: each for as long as the longest deadline, 7 days.
KEPT_SECONDS = 15 * 86400

MAX_TEXT_CHARS = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Drain(Record):
    """A recovered queue as it lay when it was planned. Later steps know it by its peer and WAL groups, wherever it lies then."""

    peer: str
    server: str  # under whose znode it lay
    queue: str  # its id
    dead_server: str  # that has written its WALs
    claimed_by: str  # for people
    groups: tuple[str, ...]
    wals: int
    bytes: int = 0  # to ship, as far as they are known
    to_ship: tuple[str, ...] = ()  # those of the groups that need a Spark job
    problem: str = ""  # what keeps it from being drained
    expected: str = ""  # what will stop its shipping, as far as can be told beforehand
    paused: bool = False  # whether the problem is only that the peer is paused

    @property
    def ref(self) -> str:
        """The queue as people write it."""
        return f"{self.server}/{self.queue}"


def note_drains(session: Session, peer_id: str, run_id: str, drains: Iterable[Drain]) -> None:
    """Begin the run of a recovery's peer, with what it is to drain. Raises ConnectError."""
    begin_run(session, peer_id, run_id, KEPT_SECONDS)
    with suppress(NoNodeError):  # of a run of the same name whose DAG run was deleted
        retried(session.zk, session.zk.delete, f"{run_path(session, peer_id, run_id)}/{QUEUES}", recursive=True)
    for number, drain in enumerate(drains):
        put(session.zk, f"{run_path(session, peer_id, run_id)}/{QUEUES}/{number}", encode(drain))


def read_drains(session: Session, peer_id: str, run_id: str) -> list[Drain]:
    """What the recovery is to drain of the peer; empty once the run is no longer kept. Raises ConnectError.

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
    """A drain that was read back, with names as HBase makes them. Raises NotARecord."""
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
    """The WAL groups that the recovery's job of the peer ships. Raises ConnectError."""
    return frozenset(group for drain in read_drains(session, peer_id, run_id) for group in drain.to_ship)
