"""Checks what operators type into forms against what exists, before anything is done: queues, servers, times, tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from walferry.base.errors import WalferryError
from walferry.hbase.names import ServerName, parse_queue_id, without_default_namespace

if TYPE_CHECKING:
    from walferry.replication.queues.dead_servers import RecoveredQueue

MAX_NAMED = 20  # of existing names in an error


class InputError(WalferryError):
    """A parameter names something that does not exist or must not be touched. The message lists what exists instead."""

    retry_helps = False


def pick_server(text: str, dead: Collection[str], live: Collection[str]) -> str:
    """Return the server that `text` names. A server that is neither dead nor live may be recovered already. Raises InputError."""
    name = text.strip()
    there = f"Dead servers with queues of managed peers: {named(dead)}"
    if name in live:
        raise InputError(f"server {name} is alive: its queues are its own, and replicate_peer ships them. {there}")
    try:
        ServerName.parse(name)
    except ValueError as error:
        raise InputError(f"{error}. {there}") from error
    return name


def pick_queues(
    peer: str, ref: str, there: Sequence[RecoveredQueue], peers: Collection[str], live: Collection[str]
) -> list[RecoveredQueue]:
    """Return the recovered queue `ref`, written "server/queue id", or all queues of `peer`, or all queues. Raises InputError.

    `there` are all recovered queues, `peers` the ids of all peers, `live` the live servers.
    """
    if ref:
        return [_pick_queue(peer, ref, there, live)]
    if not peer:
        return list(there)
    found = [queue for queue in there if queue.peer_id == peer]
    if not found and peer not in peers:
        others = sorted({queue.peer_id for queue in there})
        raise InputError(
            f"there is no peer {peer!r}. Peers: {named(sorted(peers))}; peers with recovered queues: {named(others)}"
        )
    return found


def _pick_queue(peer: str, ref: str, there: Sequence[RecoveredQueue], live: Collection[str]) -> RecoveredQueue:
    alternatives = f"Recovered queues{f' of peer {peer}' if peer else ''}: " + named(
        sorted(queue.ref for queue in there if not peer or queue.peer_id == peer)
    )
    server, slash, name = ref.partition("/")
    try:
        if not slash:
            raise ValueError("a queue is written as server/queue id")
        queue_id = parse_queue_id(name)
    except ValueError as error:
        raise InputError(f"{ref!r} is not a queue: {error}. {alternatives}") from error
    if server in live and not queue_id.recovered:
        raise InputError(
            f"queue {ref} is the own queue of a live RegionServer, which still adds WALs to it: replicate_peer ships it. "
            f"{alternatives}"
        )
    if peer and queue_id.peer_id != peer:
        raise InputError(f"queue {ref} is one of peer {queue_id.peer_id}, not of peer {peer}. {alternatives}")
    for queue in there:
        if was_called(queue, ref):
            return queue
    raise InputError(f"there is no queue {ref}. {alternatives}")


def was_called(queue: RecoveredQueue, ref: str) -> bool:
    """Return whether this is the queue `ref`, written "server/queue id", or the queue that a claim made of it."""
    server, _, name = ref.partition("/")
    claimed_since = f"{name}-{server}"  # the queue's name after the claim, or the beginning of that name
    return queue.ref == ref or queue.queue_id == claimed_since or queue.queue_id.startswith(f"{claimed_since}-")


def named(names: Iterable[str]) -> str:
    """List names for a message, and leave some out if there are too many."""
    all_names = list(names)
    more = f" and {len(all_names) - MAX_NAMED} more" if len(all_names) > MAX_NAMED else ""
    return (", ".join(all_names[:MAX_NAMED]) or "none") + more


def moment(name: str, text: Any) -> datetime:
    """Return the time, with its zone, that the parameter `name` gives. Raises InputError."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InputError(
            f"{name} is {str(text)[:100]!r}; it must be a time with its zone, such as 2025-03-01T10:00:00+00:00. Nothing was done"
        )
    return found


def tables_of(params: Mapping[str, Any]) -> list[str]:
    """Return the tables of the parameter `tables` as HBase names them: tables of the default namespace are without it."""
    return [without_default_namespace(name.strip()) for name in params["tables"] or ()]
