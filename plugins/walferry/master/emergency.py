"""The emergency start of a cluster whose HMaster does not start. `preview` says what it would do, and changes nothing.

1. this run takes the role, so that RegionServers can start, and no HMaster acts meanwhile
2. no region is opened until each live server has said which regions it serves, and the WALs of all dead servers are split
3. regions left in transition from the time before are cleared, if no region is open
4. hbase:meta is opened, then all other regions of enabled tables
5. the role ends, and an HMaster that is started takes over
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from walferry.hbase.cluster import live_servers
from walferry.master import startup
from walferry.master.decide import Step
from walferry.master.errors import NotReady
from walferry.master.role_loop import Master, Pass
from walferry.master.snapshot import ClusterSnapshot, look_and_decide
from walferry.master.survey import survey
from walferry.master.work import PAUSE_SECONDS, Tell, WorkTerms, at_work, check_hbase_1, once, until_settled
from walferry.master.znodes import encoded_name
from walferry.replication.source.session import Session

MAX_LINES = 20  # of one pass in the log


def preview(looked: ClusterSnapshot, minimum: int) -> list[str]:
    """Say what `start_cluster` finds and does, if it begins with this look."""
    found = survey(looked)
    wanted = f"; the run waits until {minimum:,} are" if len(found.live) < minimum else ""
    return [
        *found.summary(),
        *found.unknown,
        f"RegionServers that are live: {len(found.live):,}{wanted}",
        f"the WALs of dead servers that are split first: {_listed(found.recovering)}",
        f"regions in transition, which are cleared: {sum(row.seconds is not None for row in found.rows):,}",
        "then hbase:meta is opened, and after it all other regions of enabled tables",
    ]


def _listed(servers: Sequence[str]) -> str:
    more = f", and {len(servers) - MAX_LINES:,} more" if len(servers) > MAX_LINES else ""
    return ", ".join(servers[:MAX_LINES]) + more or "none"


def start_cluster(session: Session, terms: WorkTerms, minimum: int, tell: Tell) -> ClusterSnapshot:
    """Start a cluster with at least `minimum` RegionServers, and give the role back. Returns the last look.

    Regions that need people are left as they are. `tell` gets the progress in lines for people. Raises NotReady, NotSettled,
    NotHBase1, LiveMaster and the role's other errors, StoreError, ClusterError, ConnectError.
    """
    reported: list[str] = []  # lines of a pass; all lines of a large cluster would fill the log
    give_up = time.monotonic() + terms.wait_seconds
    with at_work(session, terms, reported.append) as (cluster, role, master):
        where = f"{role.me.host}:{role.me.port}"
        tell(f"This run acts as the cluster's master at {where}. RegionServers that are started now report to it")
        servers = startup.wait_for_servers(lambda: live_servers(cluster.zk, cluster.nodes), minimum, give_up - time.monotonic())
        if len(servers) < minimum:
            raise NotReady(f"{len(servers)} RegionServers are live, and {minimum} are wanted", "Start more, or ask for fewer")
        check_hbase_1(session)  # servers may have come since the role was taken
        _wait_until_ready(master, terms, give_up, tell)
        master.start(minimum)
        _flush(reported, tell)
        tell_new = once(tell)

        def one_try() -> tuple[ClusterSnapshot, list[str]]:
            master.one_pass()
            _flush(reported, tell)
            snapshot = look_and_decide(cluster, terms.limit_seconds)
            tell_new(_progress(snapshot))
            return snapshot, _left(snapshot)

        return until_settled(one_try, give_up, terms, role)


def _wait_until_ready(master: Master, terms: WorkTerms, give_up: float, tell: Tell) -> None:
    """Have the WALs of dead servers split, and wait until every live server has answered. Raises NotReady."""
    before: list[str] = []
    while why_not := _why_not(master.one_pass(frozenset())):
        if why_not != before:
            for line in why_not[:MAX_LINES]:
                tell(f"Nothing is opened yet: {line}")
        before = why_not
        if time.monotonic() >= give_up:
            advice = "See the server's log. A server that hangs can be killed: then its WALs are split, and the others go on"
            raise NotReady(f"after {terms.wait_seconds:.0f} s nothing was opened: {'; '.join(why_not[:MAX_LINES])}", advice)
        time.sleep(PAUSE_SECONDS)


def _why_not(done: Pass) -> list[str]:
    silent = [f"{server} has not said which regions it serves" for server in sorted(done.view.silent)]
    problems = {each.server: f"{each.left} WALs are left{f': {each.error}' if each.error else ''}" for each in done.progress}
    dead = sorted(done.view.servers.recovering)
    unsplit = [f"the WALs of {server}, which is dead, are not split: {problems.get(server, 'not begun')}" for server in dead]
    return [*silent, *unsplit]


def _left(snapshot: ClusterSnapshot) -> list[str]:
    """Return the regions that should be open and are not, except regions that wait for people."""
    if not snapshot.read.complete:
        return ["hbase:meta cannot be read yet"]
    return [
        f"region {encoded_name(region.name)}: {decision.why}"
        for region, decision in snapshot.decided
        if decision.step is not Step.REPORT and (region.znode is not None or (region.wanted and not region.served_by))
    ]


def _progress(snapshot: ClusterSnapshot) -> str:
    regions = [region for region in snapshot.view.regions.values() if region.wanted]
    is_open = sum(len(region.served_by) == 1 and region.znode is None for region in regions)
    moving = sum(region.znode is not None for region in snapshot.view.regions.values())
    what = "" if snapshot.read.complete else "; hbase:meta comes first, so the others are not known yet"
    return f"{is_open:,} of {len(regions):,} regions are open, {moving:,} are in transition{what}"


def _flush(reported: list[str], tell: Tell) -> None:
    for line in reported[:MAX_LINES]:
        tell(line)
    if len(reported) > MAX_LINES:
        tell(f"({len(reported) - MAX_LINES:,} more lines)")
    reported.clear()
