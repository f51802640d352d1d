"""The steps of one batch of a peer that run inside Airflow's tasks; shipping itself is the Spark job's.

Each step reads ZooKeeper afresh and keeps nothing, so any of them may be run again at any time.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from walferry.files.store import WalStore
from walferry.files.systems import StoreError
from walferry.hbase.cluster import live_servers
from walferry.hbase.errors import PeerError, ZNodeValueError
from walferry.hbase.peers import read_peers
from walferry.names import ServerName
from walferry.queues.reading import groups, list_queues
from walferry.rpc.admin import roll_wal_writer
from walferry.rpc.errors import RpcError
from walferry.shipping import leftovers
from walferry.shipping.plan import GroupPlan, PeerPlan, plan_peer
from walferry.shipping.summary import GroupSummary, read_run
from walferry.shipping.sweeping import sweep
from walferry.source.agreement import check_peer, master_peers
from walferry.source.cluster import SourceCluster
from walferry.source.session import Session, open_session
from walferry.zk.hold import is_held, read_record

ROLL_CALL_S = 30.0
ROLL_WAIT_S = 30.0  # until the WALs that a roll has begun are queued
ROLL_POLL_S = 0.2
ROLLED_AT_ONCE = 16
FREE_POLL_S = 2.0
MAX_PROBLEMS = 20  # in a plan, which is kept in Airflow's database
MAX_PROBLEM_CHARS = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rolled:
    """What became of asking the live RegionServers for new WALs: how many did, and why others did not."""

    servers: int
    failures: Mapping[str, str] = field(default_factory=dict)


def run_of(ti: Any) -> str:
    """Which run of which DAG a task is of. Run ids are one DAG's own, and whoever triggers two may give both the same."""
    return f"{ti.dag_id}/{ti.run_id}"


def managed_peers(source: SourceCluster) -> list[str]:
    """Ids of the peers that are Walferry's, sorted; a peer that cannot be read is logged and left out.

    Also those that only the Master knows, whose batches then say why they are refused. What is left of peers that are gone goes.
    Raises WalferryError.
    """
    with open_session(source) as session:
        listing = read_peers(session.zk, session.nodes)
        known = master_peers(session) or {}
        leftovers.sweep_gone(session, known)
    for problem in listing.problems:
        log.error("left out: %s", problem)
    unreadable = {problem.znode.rpartition("/")[2] for problem in listing.problems if isinstance(problem, ZNodeValueError)}
    return sorted({peer.id for peer in (*listing.peers, *known.values()) if peer.managed} - unreadable)


def roll(source: SourceCluster, peer_id: str) -> Rolled:
    """Have each live RegionServer begin new WALs, and wait until they are queued for the peer. Raises PeerError, WalferryError.

    A server that dies meanwhile is no failure: its WALs need no roll any more.
    """
    nodes = source.nodes
    with open_session(source) as session:
        check_peer(session, peer_id)
        servers = live_servers(session.zk, nodes)
        before = _newest_wals(session, peer_id)
        failures = _ask(servers, session.source.user)
        late = _await_newer(session, peer_id, {at: ts for at, ts in before.items() if at[0] not in failures})
        alive = {str(server) for server in live_servers(session.zk, nodes)}
    failures |= {server: f"it has queued no newer WAL within {ROLL_WAIT_S:g} s of the roll" for server, _ in late}
    for server in sorted(set(failures) - alive):
        log.info("%s is gone, its WALs need no roll", server)
    failures = {server: why for server, why in sorted(failures.items()) if server in alive}
    return Rolled(len(alive & {str(server) for server in servers}) - len(failures), failures)


def refusal(source: SourceCluster, peer_id: str) -> str | None:
    """Why this peer cannot be shipped as it is now, the Master asked too; None if it can be. Raises WalferryError."""
    try:
        with open_session(source) as session:
            check_peer(session, peer_id)
        WalStore(source.wal_root).check_root()
    except (PeerError, StoreError) as e:
        return str(e)
    return None


def plan(source: SourceCluster, peer_id: str, run_id: str) -> dict[str, Any]:
    """What there is to ship, in a few figures that fit Airflow's database. Raises PeerError, WalferryError.

    `groups` counts the WAL groups that need a job. Those that do not are done with here: an idle server's WALs have no entries.
    Dead servers' groups that another run has in hand are left to it; `only` names the others then. What has nothing to ship and
    is held by somebody is left to them, or to the next batch.
    """
    with open_session(source) as session:
        check_peer(session, peer_id)
        found = plan_peer(session, peer_id)
        held = holders(session, peer_id, found.dead & {group.group for group in found.groups})
        ours = PeerPlan(peer_id, tuple(group for group in found.groups if group.group not in held))
        swept = sweep(session, ours, f"plan of run {run_id} on {socket.gethostname()}")
        leftovers.sweep_peer(session, peer_id)
    for group, holder in sorted(held.items()):
        log.info("WAL group %s of a dead server is left to %s", group, holder)
    only = {"only": [group.group for group in ours.to_ship]} if held else {}
    return {"run_id": run_id, **figures(peer_id, ours.to_ship), "swept": swept.wals, **only}


def figures(peer_id: str, groups: Collection[GroupPlan]) -> dict[str, Any]:
    """Counts, bytes and problems of the groups that a job is for."""
    problems = [(group, group.problem) for group in groups if group.problem]
    return {
        "peer": peer_id,
        "groups": len(groups),
        "wals": sum(len(group.wals) for group in groups),
        "bytes": sum(group.bytes_left for group in groups),
        "problems": [
            {"server": group.server, "queue": group.queue_id, "group": group.group, "problem": problem[:MAX_PROBLEM_CHARS]}
            for group, problem in problems[:MAX_PROBLEMS]
        ],
        "problems_left_out": max(0, len(problems) - MAX_PROBLEMS),
    }


def summaries(source: SourceCluster, peer_id: str, run_id: str, groups: Collection[str] | None = None) -> list[GroupSummary]:
    """What the run's Spark jobs have written of each WAL group, or of those named."""
    with open_session(source) as session:
        return [s for s in read_run(session, peer_id, run_id) if groups is None or s.group in groups]


def holders(session: Session, peer_id: str, groups: Collection[str]) -> dict[str, str]:
    """Who has which of the WAL groups in hand now."""
    leases = {group: session.own.lease(peer_id, group) for group in groups}
    return {
        group: read_record(session.zk, lease).get("holder", "somebody")
        for group, lease in leases.items()
        if is_held(session.zk, lease)
    }


def await_free(source: SourceCluster, peer_id: str, groups: Collection[str], timeout_s: float) -> bool:
    """Wait until nobody has any of the WAL groups in hand; False if somebody still has after `timeout_s`."""
    give_up = time.monotonic() + timeout_s
    told: dict[str, str] = {}
    with open_session(source) as session:
        while held := holders(session, peer_id, groups):
            if held != told:
                told = held
                for group, holder in sorted(held.items()):
                    log.info("waiting for %s, which has WAL group %s of peer %s in hand", holder, group, peer_id)
            if time.monotonic() > give_up:
                return False
            time.sleep(FREE_POLL_S)
    return True


def _newest_wals(session: Session, peer_id: str) -> dict[tuple[str, str], int]:
    """The newest WAL's timestamp for each live server and WAL group."""
    newest: dict[tuple[str, str], int] = {}
    for queue in list_queues(session, peer_id):
        if queue.live:
            newest |= {(queue.server, group): wals[-1].name.timestamp for group, wals in groups(queue).items()}
    return newest


def _ask(servers: Collection[ServerName], user: str | None) -> dict[str, str]:
    """Ask all of them at the same time; what failed."""

    def ask(server: ServerName) -> str | None:
        try:
            roll_wal_writer(server, user=user, timeout=ROLL_CALL_S)
        except RpcError as e:
            return str(e)
        return None

    with ThreadPoolExecutor(ROLLED_AT_ONCE) as pool:
        answers = zip(servers, pool.map(ask, servers), strict=True)
        return {str(server): why for server, why in answers if why is not None}


def _await_newer(
    session: Session, peer_id: str, before: Mapping[tuple[str, str], int]
) -> Collection[tuple[str, str]]:
    """Those of the servers and groups that have queued no newer WAL when time is up; queues that are gone do not count."""
    give_up = time.monotonic() + ROLL_WAIT_S
    while True:
        now = _newest_wals(session, peer_id)
        late = [at for at, timestamp in before.items() if at in now and now[at] <= timestamp]
        if not late or time.monotonic() > give_up:
            return late
        time.sleep(ROLL_POLL_S)
