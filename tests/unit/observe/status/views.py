"""Makes queues and views of them, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import PositionError
from walferry.hbase.names import parse_queue_id, parse_wal_name
from walferry.observe.status.notes import GroupNotes, Notes, RunNote
from walferry.observe.status.view import ZooKeeperView
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.queue import Queue, QueuedWal

NOW = 1_800_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE
SERVER = "rs-1.example.org,16020,1700000000001"
DEAD = "rs-2.example.org,16020,1700000000002"


def group_of(server: str = SERVER) -> str:
    return server.replace(",", "%2C")


def wal(begun: int, position: int | PositionError = 0, server: str = SERVER, set_ms: int | None = None) -> QueuedWal:
    name = parse_wal_name(f"{group_of(server)}.{begun}")
    return QueuedWal(name, f"/rs/{name}", position, 0, set_ms)


def queue(
    *wals: QueuedWal, queue_id: str = "p", server: str = SERVER, live: bool = True, problems: tuple[str, ...] = ()
) -> Queue:
    return Queue(server, parse_queue_id(queue_id), f"/rs/{server}/{queue_id}", wals, live, problems)


def peer(peer_id: str = "p", state: str = "DISABLED", managed: bool = True, **fields: Any) -> Peer:
    config = {"walferry.managed": "true"} if managed else {}
    return Peer(peer_id, "peer:2181:/hbase", state, config, **fields)


def view(*queues: Queue, peers: tuple[Peer, ...] = (peer(),), **fields: Any) -> ZooKeeperView:
    made = ZooKeeperView(NOW / 1000, (SERVER,), queues, {each.id: each for each in peers})
    return replace(made, **fields)


def note(status: Status, age_ms: int = MINUTE, run: str = "run", **figures: Any) -> RunNote:
    return RunNote(run, NOW - age_ms, GroupSummary(group=group_of(), status=status, **figures))


def notes(*each: RunNote) -> Notes:
    """The notes of the group of SERVER's WALs in the queue of peer p, the newest first."""
    return Notes({("p", group_of()): GroupNotes(each)})
