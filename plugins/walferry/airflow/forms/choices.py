"""The recovered queues that a form proposes.

Airflow parses a DAG file all the time, so the file must not contact ZooKeeper. The tasks therefore keep the queues that they saw
last in an Airflow Variable of their source, and the DAG file reads it. The queues are proposals only and may be out of date; the
run checks the typed value. A change makes a new version of the DAG, but changes are as rare as deaths of servers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.sdk import Variable

from walferry.airflow.sources import own_name
from walferry.base.errors import WalferryError

if TYPE_CHECKING:
    from walferry.replication.source.cluster import SourceCluster

VARIABLE = "walferry_recovered_queues"
MAX_QUEUES = 50  # of a source
MAX_CHARS = 500  # a longer name is not proposed

log = logging.getLogger(__name__)


def proposed(conn_id: str) -> list[str]:
    """Return the queues to propose for a source, as "server/queue id"; none if its variable is missing or not valid."""
    try:
        value: Any = Variable.get(own_name(VARIABLE, conn_id), default=None, deserialize_json=True)
    except Exception as error:
        log.debug("no proposals: %s: %s", type(error).__name__, error)
        return []
    return _proposable(value) if isinstance(value, list) else []


def peers_of(queues: Iterable[str]) -> list[str]:
    """Return the peers of proposed queues."""
    return sorted({queue.rpartition("/")[2].partition("-")[0] for queue in queues})


def refresh(source: SourceCluster, conn_id: str) -> None:
    """Make the source's forms propose the recovered queues that exist now."""
    from walferry.replication.queues.dead_servers import recovered_queues  # DAG files import this module, but no ZooKeeper client
    from walferry.replication.source.session import open_session

    try:
        with open_session(source) as session:
            refs = [queue.ref for queue in recovered_queues(session)]
    except WalferryError as error:
        log.warning("the forms' proposals were not refreshed: %s", error)
        return
    keep(conn_id, refs)


def keep(conn_id: str, queues: Iterable[str]) -> None:
    """Propose these queues of a source from now on. A failure is only logged, since no work depends on it."""
    now = _proposable(queues)
    if proposed(conn_id) == now:
        return
    try:
        text = "Recovered queues, as Walferry's forms propose them"
        Variable.set(own_name(VARIABLE, conn_id), now, description=text, serialize_json=True)
    except Exception as error:
        log.warning("the forms' proposals were not refreshed: %s: %s", type(error).__name__, error)


def _proposable(queues: Iterable[Any]) -> list[str]:
    """Return the queues that a form may propose, and leave out all else."""
    return sorted(queue for queue in queues if isinstance(queue, str) and "/" in queue and len(queue) <= MAX_CHARS)[:MAX_QUEUES]
