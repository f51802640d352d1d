"""`walferry drain` and `walferry failover`: claim and ship dead servers' queues, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from walferry.cli import options
from walferry.cli.show import BAD, GOOD, STUCK, WARNING, WELL, Cell, ShownTable, plain, show, table, tell
from walferry.cli.source import Chosen

if TYPE_CHECKING:
    from walferry.cli.local_ship import ShipTerms
    from walferry.replication.source.cluster import SourceCluster
    from walferry.runs.reports.recovery import Drained, Recovery
    from walferry.runs.steps.recovery import RecoveryPlan
    from walferry.runs.values import Claimed, Planned, Selected

DEADLINE_SECONDS = 3600
_HEAD = ("QUEUE", "STATE", "WALS", "LEFT", "OPS", "BYTES")
_FIGURES = ("WALS", "LEFT", "OPS", "BYTES")
_STATUS = """\
Exit status: 0 if nothing is left of the queues, or their peers are paused; 1 if the command is refused; 2 for wrong arguments; 3
if something is left.
"""


@click.command(epilog=_STATUS)
@click.argument("queue", metavar="SERVER/QUEUE")
@click.option("--dry-run", is_flag=True, help="Only show, WAL by WAL, what would be claimed, shipped and deleted.")
@click.option("--delete-orphan", is_flag=True, help="If the queue's peer is gone, delete the queue with its WALs, unshipped.")
@options.shipping(DEADLINE_SECONDS)
@options.as_json
@click.pass_obj
def drain(
    chosen: Chosen, /, queue: str, dry_run: bool, delete_orphan: bool, as_json: bool, master_absent: bool, **how: Any
) -> int:
    """Ship one dead server's queue.

    QUEUE is a recovered queue as under replication/rs: the server under which it lies, and its id. If the queue is unclaimed, all
    queues of its dead server are claimed first. The command does the same as the DAG drain_recovered_queue, in processes of this
    machine instead of Spark. Ctrl-C ends it; called again, it goes on.
    """
    from walferry.cli.local_ship import ShipTerms, run_name
    from walferry.runs.steps import recovery

    source, run = chosen.reached(master_absent=master_absent), run_name("drain")
    selected = recovery.select(source, "", queue, delete_orphan)
    if dry_run:
        lines = recovery.preview(source, selected, delete_orphan)
        return show(lambda: ShownTable({"lines": lines}, lambda: "\n".join(plain(lines))), as_json=as_json)
    orphans = recovery.deal_with_orphans(source, selected.to_delete, delete_orphan, run)
    notes = [*selected.notes, *orphans.lines]
    recovered = _recover(source, selected.servers, selected.to_drain, run, ShipTerms(**how))
    problems = [*orphans.problems, *recovered.problems]
    return _show(replace(recovered, notes=[*notes, *recovered.notes], problems=problems), as_json=as_json)


@click.command(epilog=_STATUS)
@click.argument("server", required=False, default="", metavar="[HOST,PORT,STARTCODE]")
@options.shipping(DEADLINE_SECONDS)
@options.as_json
@click.pass_obj
def failover(chosen: Chosen, /, server: str, as_json: bool, master_absent: bool, **how: Any) -> int:
    """Claim and ship all queues of a dead RegionServer.

    Without a server, it does so for all servers that are dead now and have left queues of managed peers. The command does the
    same as the DAG regionserver_failover, in processes of this machine instead of Spark. Ctrl-C ends it; called again, it goes
    on.
    """
    from walferry.cli.local_ship import ShipTerms, run_name
    from walferry.runs.steps import recovery

    source = chosen.reached(master_absent=master_absent)
    found = recovery.find(source, server, ())
    recovered = _recover(source, found.servers, None, run_name("failover"), ShipTerms(**how))
    return _show(replace(recovered, notes=[*found.notes, *recovered.notes]), as_json=as_json)


def _recover(source: SourceCluster, servers: Sequence[str], selected: Selected | None, run: str, how: ShipTerms) -> Recovery:
    """Claim what is left of `servers`, then drain the `selected` queues, or else the queues that the claims are for."""
    from walferry.base.errors import WalferryError
    from walferry.runs.reports.recovery import Recovery
    from walferry.runs.steps import recovery

    claims: list[Claimed] = []
    problems: list[str] = []
    for server in servers:
        try:
            claims.append(recovery.claim(source, server, run))
        except WalferryError as error:  # the other servers' queues are drained all the same
            problems.append(f"claim of {server}: {error}")
    wanted = recovery.wanted_by_hand(selected) if selected else recovery.wanted_by_claims(claims)
    claimed = {claim.server for claim in claims}
    planned = recovery.plan(source, wanted, claimed, run)
    failed = _ship(source, planned, how)
    dead = claimed | {drain.dead_server for drain in planned.drains if not drain.problem}
    removed = recovery.clean_up(source, dead, run) if dead else ()
    drains = [replace(each, problem=each.problem or failed.get(each.peer, "")) for each in planned.drains]
    return Recovery(claims, recovery.outcome(source, drains, run, {}), problems=problems, removed=removed)


def _ship(source: SourceCluster, plan: RecoveryPlan, how: ShipTerms) -> dict[str, str]:
    """Ship the plan peer by peer, and wait for queues that other runs hold. Return by peer why its shipping could not begin."""
    from walferry.base.errors import WalferryError
    from walferry.cli.local_ship import ship_groups
    from walferry.engine.summary import Status
    from walferry.runs.steps import recovery

    failed = {}
    for job in plan.jobs:
        for drain in plan.drains:
            if drain.peer == job.peer and drain.to_ship:
                tell(f"queue {drain.ref}: {drain.wals:,} WALs, at least {drain.bytes:,} bytes to ship")

        def ship(free: bool, job: Planned = job) -> list[str]:
            return [s.group for s in ship_groups(source, job, how, recovery=True) if s.status is Status.HELD]

        try:
            recovery.ship_in_rounds(source, job, how.deadline, ship)
        except WalferryError as error:  # the other peers' queues are drained all the same
            failed[job.peer] = str(error)
    return failed


def _show(recovered: Recovery, *, as_json: bool) -> int:
    from walferry.runs.reports.recovery import as_dict

    def text() -> str:
        lines = [*recovered.notes]
        lines += [f"{claim.server}: left to others: {why}" for claim in recovered.claims for why in claim.left]
        lines += [f"{each.drain.ref}: {each.drain.problem}" for each in recovered.drained if each.drain.paused]
        lines = plain(lines)
        if recovered.drained:
            lines.append(table(_HEAD, [_row(each) for each in recovered.drained], _FIGURES))
        elif not recovered.failures and not lines:
            lines.append("There are no recovered queues to drain.")
        lines += [f"Removed the empty znode of {server}." for server in recovered.removed]
        return "\n".join(lines)

    view = ShownTable(as_dict(recovered), text, STUCK if recovered.failures else WELL, recovered.failures)
    return show(lambda: view, as_json=as_json)


def _row(each: Drained) -> list[str | Cell]:
    from walferry.runs.reports.batch import totals_of

    totals = totals_of(each.summaries)
    state = Cell("complete", GOOD) if each.complete else Cell("paused", WARNING) if each.paused else Cell("left", BAD)
    figures = [each.drain.wals, max(0, each.left), totals["shippedOps"], totals["shippedBytes"]]
    return [each.drain.ref, state, *(f"{figure:,}" for figure in figures)]
