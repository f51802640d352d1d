"""The recovered queues that a form proposes.

Airflow parses a DAG file all the time, so the file must not contact ZooKeeper. The tasks therefore keep the queues that they saw
last in an Airflow Variable, {connection: [queue, …]}, and the DAG file reads it. The queues are proposals only and may be out of
date; the run checks the typed value. A change makes a new version of the DAG, but changes are as rare as deaths of servers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.sdk import Variable

from walferry.base.errors import WalferryError

if TYPE_CHECKING:
    from walferry.replication.source.cluster import SourceCluster

VARIABLE = "walferry_recovered_queues"
MAX_CONNECTIONS = 10
MAX_QUEUES = 50  # of one connection
MAX_CHARS = 500  # a longer name is not proposed

log = logging.getLogger(__name__)


def proposed() -> list[str]:
    """Return the queues to propose, as "server/queue id"; none if the variable is missing or not valid."""
    return sorted({queue for queues in _read().values() for queue in queues})


def proposed_peers() -> list[str]:
    """Return the peers of these queues."""
    return sorted({queue.rpartition("/")[2].partition("-")[0] for queue in proposed()})


def refresh(source: SourceCluster, source_conn_id: str) -> None:
    """Make the forms propose the recovered queues that exist now."""
    from walferry.replication.queues.dead_servers import recovered_queues  # DAG files import this module, but no ZooKeeper client
    from walferry.replication.source.session import open_session

    try:
        with open_session(source) as session:
            refs = [queue.ref for queue in recovered_queues(session)]
    except WalferryError as error:
        log.warning("the forms' proposals were not refreshed: %s", error)
        return
    keep(source_conn_id, refs)


def keep(source_conn_id: str, queues: Iterable[str]) -> None:
    """Propose these queues of a connection's cluster from now on. A failure is only logged, since no work depends on it."""
    try:
        known = _read()
        now = [queue for queue in sorted(queues) if len(queue) <= MAX_CHARS][:MAX_QUEUES]
        if known.get(source_conn_id, []) == now:
            return
        others = {conn_id: of_other for conn_id, of_other in known.items() if conn_id != source_conn_id}
        value = {**dict(list(others.items())[: MAX_CONNECTIONS - 1]), **({source_conn_id: now} if now else {})}
        Variable.set(VARIABLE, value, description="Recovered queues, as Walferry's forms propose them", serialize_json=True)
    except Exception as error:
        log.warning("the forms' proposals were not refreshed: %s: %s", type(error).__name__, error)


def _read() -> dict[str, list[str]]:
    """Read the variable, and drop everything that `keep` would not have written."""
    try:
        value: Any = Variable.get(VARIABLE, default=None, deserialize_json=True)
    except Exception as error:
        log.debug("no proposals: %s: %s", type(error).__name__, error)
        return {}
    if not isinstance(value, dict):
        return {}
    return {
        conn_id: [queue for queue in queues if isinstance(queue, str) and "/" in queue and len(queue) <= MAX_CHARS][:MAX_QUEUES]
        for conn_id, queues in list(value.items())[:MAX_CONNECTIONS]
        if isinstance(queues, list)
    }
