"""`walferry plan` and `walferry ship`: show a peer's backlog, and ship it in a batch without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from walferry.cli import options
from walferry.cli.show import BAD, GOOD, STUCK, WARNING, WELL, Cell, ShownTable, plain, show, table, tell
from walferry.cli.source import Chosen

if TYPE_CHECKING:
    from walferry.cli.local_ship import ShipTerms
    from walferry.engine.summary import GroupSummary
    from walferry.replication.source.cluster import SourceCluster
    from walferry.runs.reports.batch import BatchReport
    from walferry.runs.values import Planned
    from walferry.shipping.plan import GroupPlan

DEADLINE_SECONDS = 1800
_PLAN_HEAD = ("SERVER", "QUEUE", "WALS", "BYTES", "WAL GROUP", "PROBLEM")
_SHIP_HEAD = ("WAL GROUP", "STATUS", "WALS", "OPS", "BYTES", "LEFT", "SECONDS")
_FIGURES = ("WALS", "OPS", "BYTES", "LEFT", "SECONDS")
_STATUS = """\
Exit status: 0 if nothing is left that could be shipped now; 1 if the command is refused; 2 for wrong arguments; 3 if something is
left: the deadline came, the peer cluster is down, another run has a queue, a queue is stuck, or edits of a serial peer wait for
others.
"""


@click.command()
@click.argument("peer_id", metavar="PEER")
@options.shown
def plan(chosen: Chosen, peer_id: str, as_json: bool, watch: float | None) -> int:
    """Show what a batch of a peer would ship.

    It changes nothing. The status is 3 if a part of the backlog cannot be shipped as it is.
    """
    return show(lambda: _plan(chosen.reached(), peer_id), as_json=as_json, watch=watch)


@click.command(epilog=_STATUS)
@click.argument("peer_id", metavar="PEER")
@click.option("--no-roll", is_flag=True, help="Ship closed WALs only, without having the RegionServers begin new ones.")
@options.shipping(DEADLINE_SECONDS)
@options.as_json
@click.pass_obj
def ship(chosen: Chosen, /, peer_id: str, no_roll: bool, as_json: bool, master_absent: bool, **how: Any) -> int:
    """Ship the queued WALs of a managed peer.

    It does the same as a batch of the DAG replicate_peer, in processes of this machine instead of Spark. Ctrl-C ends it and
    releases the locks that it holds. Meanwhile Airflow's batches leave the peer to it.
    """
    from walferry.cli.local_ship import ShipTerms

    report = _ship(chosen.reached(master_absent=master_absent), peer_id, ShipTerms(**how), roll=not no_roll)
    left = any(str(s.status) in ("deadline", "waiting") for s in report.summaries)
    status = STUCK if report.failures or left else WELL
    return show(lambda: ShownTable(report.to_xcom(), lambda: _reported(report), status, report.failures), as_json=as_json)


def _plan(source: SourceCluster, peer_id: str) -> ShownTable:
    from walferry.replication.source.session import open_session
    from walferry.shipping.plan import plan_peer

    with open_session(source, look_only=True) as session:
        waits = _waits(session, peer_id)
        groups = [group for group in plan_peer(session, peer_id).groups if group.wals]
    found = {
        "peer": peer_id,
        "left_to": waits,
        "wals": sum(len(group.wals) for group in groups),
        "bytes": sum(group.bytes_left for group in groups),
        "groups": [
            {"server": group.server, "queue": group.queue_id, "group": group.group, "wals": len(group.wals),
             "bytes": group.bytes_left, "wals_of_unknown_size": group.unsure, "problem": group.problem}
            for group in groups
        ],
    }  # fmt: skip

    def text() -> str:
        lines = table(_PLAN_HEAD, [_planned(group) for group in groups], _FIGURES)
        first = lines if groups else f"peer {peer_id}: no closed WALs are queued"
        return "\n".join([first, *plain([f"A batch would ship nothing now: {waits}"] if waits else [])])

    return ShownTable(found, text, STUCK if any(group.problem for group in groups) else WELL)


def _waits(session: Any, peer_id: str) -> str | None:
    """Return why a batch would leave the peer alone for now. Raises PeerError if the peer may not be shipped at all."""
    from walferry.hbase.errors import PausedPeer
    from walferry.load.copy_records import under_way
    from walferry.replication.locks.peer_lock import turn_of
    from walferry.replication.source.agreement import check_peer

    if check_peer(session, peer_id, even_paused=True).paused:
        return str(PausedPeer(peer_id))
    other = turn_of(session, peer_id, "").other or under_way(session, peer_id)
    return None if other is None else str(other)


def _planned(group: GroupPlan) -> list[str | Cell]:
    known = f"{group.bytes_left:,}" + ("+" if group.unsure else "")
    return [group.server, group.queue_id, f"{len(group.wals):,}", known, group.group, Cell(group.problem or "", BAD)]


def _ship(source: SourceCluster, peer_id: str, how: ShipTerms, *, roll: bool) -> BatchReport:
    """Roll, plan and ship. Raises WalferryError if the peer may not be shipped."""
    from walferry.cli.local_ship import run_name
    from walferry.runs.reports.batch import BatchReport, Steps
    from walferry.runs.steps import batch

    run = run_name("ship")
    rolled = batch.roll(source, [peer_id]) if roll else None
    unrolled, warnings = (rolled.problems, rolled.warnings) if rolled else ((), ())
    planned = batch.plan(source, peer_id, f"{run}.1", run)
    steps: dict[str, Any] = {"roll": "failed" if unrolled else "success", "unrolled": unrolled, "roll_warnings": warnings}
    summaries: list[GroupSummary] = []
    if planned.groups and not planned.left_to:
        tell(f"peer {peer_id}: {planned.wals:,} WALs of {planned.groups:,} WAL groups, at least {planned.bytes:,} bytes to ship")
        reported, summaries = _holding_peer(source, planned, how, run)
        steps |= reported
    return BatchReport(peer_id, planned, Steps(**steps), summaries)


def _holding_peer(source: SourceCluster, planned: Planned, how: ShipTerms, run: str) -> tuple[dict[str, str], list[GroupSummary]]:
    """Ship the plan while this run holds the peer lock. Return fields for the report's Steps, and the groups' summaries."""
    from walferry.cli.local_ship import ship_groups
    from walferry.hbase.errors import PausedPeer
    from walferry.replication.locks.peer_lock import PeerLocked
    from walferry.runs.steps import batch

    try:
        with batch.holding_peer(source, planned, run):
            if why := batch.why_down(source, planned.peer):
                return {"ship": "failed", "peer_down": f"peer {planned.peer}: its peer cluster is down: {why}"}, []
            only = batch.not_held(source, planned.peer) if planned.held else None
            if only == []:
                return {"left_to": f"peer {planned.peer}: all that is left to ship is in the hands of recoveries"}, []
            return {}, ship_groups(source, planned, how, only)
    except (PeerLocked, PausedPeer) as error:
        return {"left_to": str(error)}, []


def _reported(report: BatchReport) -> str:
    if report.left_to:
        return plain([f"Nothing is shipped: {report.left_to}"])[0]
    if not report.summaries:
        return f"peer {report.peer}: nothing was shipped" if report.failures else f"peer {report.peer}: nothing to ship"
    return table(_SHIP_HEAD, [shipped(s) for s in sorted(report.summaries, key=lambda s: s.group)], _FIGURES)


def shipped(s: GroupSummary) -> list[str | Cell]:
    """Return a WAL group's row."""
    colour = {"done": GOOD, "deadline": WARNING, "paused": WARNING, "waiting": WARNING}.get(str(s.status), BAD)
    figures = [f"{figure:,}" for figure in (s.completedLogs, s.shippedOps, s.shippedBytes, s.logsLeft)]
    return [s.group, Cell(str(s.status), colour), *figures, f"{s.seconds:.1f}"]
