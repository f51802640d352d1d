"""The steps of an initial snapshot that run inside Airflow's tasks; copying itself is the Spark job's."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from walferry.initial_snapshot.job import CopyRun, check_queued, chosen_tables
from walferry.initial_snapshot.snapshots import delete_snapshots
from walferry.load.copy_records import Records, as_xcom
from walferry.replication.locks.peer_lock import turn_of
from walferry.replication.peers.slave_tables import slave_tables
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session

log = logging.getLogger(__name__)


def look(source: SourceCluster, peer_id: str, run: str, tables: Sequence[str], *, allow_not_empty: bool) -> dict[str, list[str]]:
    """The tables that will be copied, each with its families. Raises what speaks against it, before anything is done."""
    with open_session(source) as session:
        peer = check_peer(session, peer_id)
        check_queued(session, peer_id)
        state = Records(session, peer_id).state()
        if state is not None and state.complete and state.run == run:
            return {table: [] for table in state.tables}
        request = CopyRun(source=source, peer_id=peer_id, run_id=run, tables=tuple(tables), allow_not_empty=allow_not_empty)
        with slave_tables(peer, source.login_to(peer)) as slave:
            chosen = chosen_tables(session, peer, slave, request)
    return {table.name: [family.decode(errors="replace") for family in table.families] for table in chosen}


def clean_up(source: SourceCluster, peer_id: str, run: str) -> list[str]:
    """Delete the snapshots that a killed job of the run has left, and return their names; another run's are left to it."""
    with open_session(source) as session:
        other = turn_of(session, peer_id, run).other
        if other is not None:
            log.info("snapshots are left to another run: %s", other)
            return []
        return delete_snapshots(session, peer_id)


def outcome(source: SourceCluster, peer_id: str) -> dict[str, Any] | None:
    """What is known of the peer's initial snapshot; None if none was begun."""
    with open_session(source) as session:
        state = Records(session, peer_id).state()
        return None if state is None else as_xcom(state)
