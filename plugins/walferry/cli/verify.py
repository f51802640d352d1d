"""`walferry verify`: compares a peer's tables at the source and at the peer cluster, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from walferry.cli import options
from walferry.cli.options import BYTES, SECONDS, TIME
from walferry.cli.show import BAD, ERROR, GOOD, STUCK, WELL, Cell, ShownTable, plain, show, table, tell
from walferry.cli.source import Chosen

if TYPE_CHECKING:
    from walferry.replication.source.cluster import SourceCluster
    from walferry.runs.reports.verification import VerificationReport
    from walferry.verification.job import Options
    from walferry.verification.outcome import VerificationOutcome

MAX_SAMPLES = 100
_HEAD = ("TABLE", "GOOD", "BAD", "ONLY AT SOURCE", "ONLY AT PEER", "DIFFERENT", "REPAIRED")
_STATUS = """\
Exit status: 0 if all rows are equal; 1 if the command is refused or a table cannot be compared; 2 for wrong arguments; 3 if rows
differ.
"""


@click.command(epilog=_STATUS)
@click.argument("peer_id", metavar="PEER")
@click.argument("tables", nargs=-1, metavar="[[NAMESPACE:]TABLE]...")
@click.option("--start-row", type=BYTES, default=b"", metavar="ROW", help=r"Only rows from this one on, e.g. abc\x00.")
@click.option("--stop-row", type=BYTES, default=b"", metavar="ROW", help="Only rows before this one.")
@click.option("--from", "start_time", type=TIME, metavar="TIME", help="Only cells with this timestamp or a later one.")
@click.option("--to", "end_time", type=TIME, metavar="TIME", help="Only cells with earlier timestamps.")
@click.option("--versions", type=click.IntRange(1), default=1, show_default=True, help="The newest versions of each column.")
@click.option("--deleted", is_flag=True, help="Compare delete markers and the cells that they hide too.")
@click.option(
    "--recompares", type=click.IntRange(0, 10), default=2, show_default=True, help="How often to compare rows again that differ."
)
@click.option(
    "--recompare-seconds", type=SECONDS, default=10.0, show_default=True, metavar="SECONDS",
    help="Pause before the first of these; each further pause is twice as long.",
)  # fmt: skip
@click.option(
    "--repair", is_flag=True, help="Ship rows again that the peer cluster lacks or has differently; for managed peers only."
)
@click.option(
    "--from-files", is_flag=True,
    help="Compare the files of snapshots of both clusters first, and scan only the rows that differ there. Flushes the tables.",
)  # fmt: skip
@options.workers
@options.as_json
@click.pass_obj
def verify(chosen: Chosen, /, peer_id: str, tables: tuple[str, ...], workers: int, as_json: bool, **how: Any) -> int:
    """Compare a peer's tables at the source and at the peer cluster.

    Without tables, it compares all tables that the peer gets. It does the same as the DAG verify_peer, in processes of this
    machine instead of Spark: all rows pass through this machine, so use the DAG for large tables, or narrow the comparison.
    """
    from walferry.verification.job import Options

    asked = Options(**how, samples=MAX_SAMPLES)
    if asked.stop_row and asked.start_row >= asked.stop_row:
        raise click.UsageError("--start-row does not come before --stop-row, so there is nothing to compare")
    if asked.end_time is not None and (asked.start_time or 0) >= asked.end_time:
        raise click.UsageError("--from does not come before --to, so there is nothing to compare")
    report = _compare(chosen.reached(), peer_id, tables, asked, workers)
    problem = any(outcome.problem for outcome in report.outcomes or ())
    status = ERROR if problem else STUCK if report.failures else WELL
    return show(lambda: ShownTable(report.to_xcom(), lambda: _reported(report), status, report.failures), as_json=as_json)


def _compare(source: SourceCluster, peer_id: str, tables: tuple[str, ...], asked: Options, workers: int) -> VerificationReport:
    from walferry.cli.local_ship import run_name
    from walferry.jobs.workers import LocalProcesses
    from walferry.runs.reports.verification import VerificationReport
    from walferry.verification.verify_run import VerifyRun

    run = VerifyRun(source=source, peer_id=peer_id, run_id=run_name("verify"), tables=tables, options=asked)
    plan = run.plan()
    tell(f"peer {peer_id}: {len(plan.parts):,} regions of {len({part.table for part in plan.parts}):,} tables to compare")
    return VerificationReport(peer_id, run.compare(plan, LocalProcesses(workers), tell))


def _reported(report: VerificationReport) -> str:
    from walferry.runs.reports.verification import file_lines

    outcomes = report.outcomes or ()
    if not outcomes:
        return "The peer gets no table, so there is nothing to compare."
    samples = [f"{s.kind} {o.table} {s.row}: {s.detail}" for o in outcomes for s in o.samples]
    in_files = [f"{o.in_files:,} rows of table {o.table} were equal in files" for o in outcomes if o.in_files]
    lines = plain([*samples[:MAX_SAMPLES], *in_files, *file_lines(outcomes)])
    return "\n".join([table(_HEAD, [_row(o) for o in outcomes], _HEAD[1:]), *lines])


def _row(outcome: VerificationOutcome) -> list[str | Cell]:
    kinds = [f"{count:,}" for count in outcome.bad.values()]
    bad = Cell(f"{outcome.bad_rows:,}", BAD if outcome.bad_rows else GOOD)
    return [outcome.table, f"{outcome.good:,}", bad, *kinds, f"{outcome.repaired:,}"]
