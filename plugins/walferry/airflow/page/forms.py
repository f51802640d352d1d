"""Values for Airflow's forms, by which a viewer acts on the rows of the page.

The page itself changes nothing. Airflow's form for a run takes no values through its address, so the page shows them next to a
link to the DAG, as the JSON that the form's field "Configuration JSON" takes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from walferry.airflow.page import formats
from walferry.airflow.page.links import REPLICATE
from walferry.airflow.sources import own_name
from walferry.hbase.names import is_server_name
from walferry.observe.status.model import DeadServerStatus, PeerStatus, QueueStatus

DRAIN, BACKFILL, FAILOVER = "drain_recovered_queue", "replay_interval", "regionserver_failover"
DAGS = (REPLICATE, DRAIN, BACKFILL, FAILOVER)


@dataclass(frozen=True)
class Form:
    """A run to be triggered: its DAG, its purpose, and its parameters."""

    dag_id: str
    title: str
    conf: str  # JSON in ASCII, so that hidden characters in a name can be seen


def ship(conn_id: str, peer: PeerStatus) -> Form:
    """Return the form that ships the queued WALs of a managed peer."""
    return _form(REPLICATE, "Ship this peer now", conn_id, peer=peer.id)


def drain(conn_id: str, queue: QueueStatus) -> Form:
    """Return the form that drains a recovered queue."""
    return _form(DRAIN, "Drain this queue", conn_id, queue=f"{queue.server}/{queue.queue_id}")


def drop(conn_id: str, queue: QueueStatus) -> Form:
    """Return the form that reports on a queue whose peer is gone. The viewer may choose in it to delete the queue."""
    name = f"{queue.server}/{queue.queue_id}"
    return _form(DRAIN, "Look into this queue", conn_id, queue=name, dry_run=True, delete_orphan=False)


def backfill(conn_id: str, peer: PeerStatus, at_ms: int) -> Form | None:
    """Return the form that ships to a peer again all edits since its oldest WAL was begun; None if it has no WAL."""
    begun = min((group.oldest.begun_ms for queue in peer.queues or () for group in queue.groups), default=None)
    if begun is None or not formats.iso(begun) or begun >= at_ms:
        return None
    return _form(
        BACKFILL, "Ship an interval again", conn_id, peer=peer.id, from_date=formats.iso(begun),
        to_date=formats.iso(at_ms), dry_run=True,
    )  # fmt: skip


def failover(conn_id: str, server: DeadServerStatus) -> Form | None:
    """Return the form that claims and drains the queues of a dead server."""
    if not is_server_name(server.name):
        return None
    return _form(FAILOVER, "Recover this server", conn_id, server=server.name)


def _form(dag: str, title: str, conn_id: str, **params: Any) -> Form:
    return Form(own_name(dag, conn_id), title, json.dumps({"source_conn_id": conn_id, **params}))
