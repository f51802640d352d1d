"""Carries out operators' requests: takes the master's role, begins, makes passes until it is done, and gives the role back.

While an HMaster is active, only `unstick` acts: it gives up opens that the HMaster waits for in vain (`beside_active_master`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.base.users import user_name
from walferry.base.zk.client import read_all
from walferry.hbase.cluster import live_servers
from walferry.hbase.errors import ClusterError
from walferry.hbase.values import decode_server_version
from walferry.master.beside_active_master import beside_master, give_up_opens
from walferry.master.calls import CalledServers
from walferry.master.cluster_znodes import check_files
from walferry.master.decide import Step
from walferry.master.errors import NotHBase1, NotSettled
from walferry.master.locality import HdfsLocality
from walferry.master.reconcile import LIMIT_SECONDS, PassOutcome
from walferry.master.requests import OperatorRequest, not_open
from walferry.master.role import Candidate, Role, acting_as_master
from walferry.master.role_loop import Cluster, Master
from walferry.master.snapshot import ClusterSnapshot, look_and_decide
from walferry.master.znodes import encoded_name
from walferry.replication.source.session import Session

WAIT_SECONDS = 600.0
PAUSE_SECONDS = 0.5
MAX_LEFT = 20  # regions that an error names
AGAIN_SECONDS, MAX_SAID = 600.0, 10_000  # of lines that are not repeated

Tell = Callable[[str], None]


@dataclass(frozen=True)
class WorkTerms:
    """The terms under which a run holds the role. RegionServers call `host`:`port`; the default host is this machine's name.

    `listen` is the address to listen on, by default the host's address. `holder` is the run's name for people; a killed attempt
    of the same `run` loses the role at once. If it `serves_clients`, HBase's clients may enable and disable tables.
    """

    holder: str
    run: str | None = None
    host: str | None = None
    listen: str | None = None
    port: int = 0
    limit_seconds: float = LIMIT_SECONDS
    wait_seconds: float = WAIT_SECONDS
    serves_clients: bool = False


def cluster_of(session: Session) -> Cluster:
    """Return the connections to a session's cluster for looks at its regions. Raises NotHBase1, ClusterError, ConnectError."""
    check_hbase_1(session)
    source = session.source
    return Cluster(session.zk, session.nodes, session.own, CalledServers(source.login), source.wal_root, source.login)


def check_hbase_1(session: Session) -> None:
    """Raise NotHBase1 if a live RegionServer says that it is HBase 2 or later."""
    try:
        servers = sorted(live_servers(session.zk, session.nodes))
    except ClusterError:  # ZooKeeper has lost all data, or this is not the cluster's base
        return
    paths = [f"{session.nodes.rs}/{server}" for server in servers]
    for server, path, found in zip(servers, paths, read_all(session.zk, paths), strict=True):
        version = decode_server_version(found.value, path) if found is not None else None
        if version is not None and version.split(".")[0] not in ("0", "1"):
            raise NotHBase1(str(server), one_line(version, 100))


@contextmanager
def at_work(session: Session, terms: WorkTerms, tell: Tell) -> Iterator[tuple[Cluster, Role, Master]]:
    """Act as the cluster's master while the block runs.

    Raises LiveMaster, RoleHeld, NoClusterId, WrongFiles, CannotListen, StoreError, ConnectError.
    """
    source = session.source
    cluster = cluster_of(session)
    root = source.hbase_root
    check_files(session.zk, session.nodes, source.wal_root)
    host = terms.host or socket.getfqdn()
    candidate = Candidate(
        terms.holder, root, terms.run, host, terms.listen or host, terms.port, serves_clients=terms.serves_clients,
        login=source.login,
    )  # fmt: skip
    locality = HdfsLocality(root, source.login.user or user_name())
    with acting_as_master(session.zk, session.nodes, session.own, candidate) as role:
        yield cluster, role, Master(cluster, role, locality=locality, limit_seconds=terms.limit_seconds, tell=once(tell))


def once(tell: Tell) -> Tell:
    """Make a `tell` that says a line again only after a while: passes mostly repeat the lines of the pass before."""
    said: dict[str, float] = {}  # when each line was said last, the oldest first

    def tell_new(line: str) -> None:
        now = time.monotonic()
        if now - said.get(line, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return
        said.pop(line, None)
        said[line] = now
        if len(said) > MAX_SAID:
            del said[next(iter(said))]
        tell(line)

    return tell_new


def carry_out(
    session: Session, ask: Callable[[ClusterSnapshot], OperatorRequest], terms: WorkTerms, tell: Tell
) -> ClusterSnapshot:
    """Carry out the request that `ask` makes from a look, as the cluster's master. Returns the last look.

    `tell` gets the progress in lines for people. Raises Refused, NotSettled, LiveMaster and the role's other errors, StoreError,
    ClusterError, ConnectError.
    """
    with at_work(session, terms, tell) as (cluster, role, master):
        request = ask(look_and_decide(cluster, terms.limit_seconds))
        for line in request.lines:
            tell(line)
        problem = _first_problem(request.begin(cluster, role))

        def one_try() -> tuple[ClusterSnapshot, list[str]]:
            nonlocal request
            master.one_pass(request.only, request.table)
            snapshot = look_and_decide(cluster, terms.limit_seconds)
            left = request.left(snapshot)
            if not left and request.again and not (more := ask(snapshot)).only <= request.only:
                for line in more.lines:
                    tell(line)
                request, left = more, more.left(snapshot)
            return snapshot, left

        snapshot = until_settled(one_try, time.monotonic() + terms.wait_seconds, terms, role)
        if problem is not None:
            raise problem
        return snapshot


def until_settled(
    one_try: Callable[[], tuple[ClusterSnapshot, list[str]]], give_up: float, terms: WorkTerms, role: Role | None = None
) -> ClusterSnapshot:
    """Try until a look finds no work left, and return that look. `one_try` returns a look and the remaining work in words.

    Between tries this checks that `role` is still held. Raises NotSettled after `give_up` (time.monotonic), the role's errors,
    and the errors of `one_try`.
    """
    while True:
        snapshot, left = one_try()
        if not left:
            return snapshot
        if time.monotonic() >= give_up:
            more = f"; and {len(left) - MAX_LEFT} more" if len(left) > MAX_LEFT else ""
            problem = f"after {terms.wait_seconds:.0f} s this is not at its end: {'; '.join(left[:MAX_LEFT])}{more}"
            raise NotSettled(problem, "What was begun is written in ZooKeeper: the next run, or an HMaster, goes on with it")
        if role is None:
            time.sleep(PAUSE_SECONDS)
        else:
            role.lock.lost.wait(PAUSE_SECONDS)
            role.lock.check()


def _first_problem(begun: Sequence[PassOutcome]) -> WalferryError | None:
    """Return why a region was not touched. The other regions are finished before this error is raised."""
    for outcome in begun:
        if outcome.error is not None:
            return outcome.error
        if outcome.decision.step is Step.WAIT:
            name = encoded_name(outcome.region.name)
            return NotSettled(f"region {name} was not touched: {outcome.decision.why}", "Try again")
    return None


def unstick_beside(
    session: Session, ask: Callable[[ClusterSnapshot], OperatorRequest], terms: WorkTerms, tell: Tell
) -> ClusterSnapshot:
    """Give up opens that an active HMaster waits for, and wait until it has assigned these regions. Returns the last look.

    `ask` and `tell`: see `carry_out`. Raises Refused, NotSettled, NoLiveMaster, RoleHeld, StoreError, ClusterError, ConnectError.
    """
    cluster = cluster_of(session)
    with beside_master(session.zk, session.nodes, session.own, terms.holder, terms.run) as writes:
        snapshot = look_and_decide(cluster, terms.limit_seconds)
        request = ask(snapshot)
        for line in request.lines:
            tell(line)
        done = give_up_opens([each for each in snapshot.decided if encoded_name(each[0].name) in request.only], writes)
    tell(f"opens that the HMaster waits for in vain and that were given up: {sum(outcome.error is None for outcome in done):,}")
    left = not_open(encoded_name(outcome.region.name) for outcome in done if outcome.error is None)

    def one_try() -> tuple[ClusterSnapshot, list[str]]:
        again = look_and_decide(cluster, terms.limit_seconds)
        return again, left(again)

    snapshot = until_settled(one_try, time.monotonic() + terms.wait_seconds, terms)
    if problem := _first_problem(done):
        raise problem
    return snapshot
