"""Compares the tables of a peer's source and slave: one Spark task a region; exit code 1 if not all could be compared.

    spark-submit --py-files walferry-….zip spark_jobs/verify_peer.py --source '{"quorum": …}' --peer 2 --run-id … --table t

The outcome is kept in ZooKeeper (walferry.verification.results) and printed, the last line as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext

MAX_SAMPLES = 5000  # of each kind

if TYPE_CHECKING:  # the library is on the path only once Spark has put its archive there
    from walferry.replication.source.cluster import SourceCluster
    from walferry.verification.job import Options, TableRange
    from walferry.verification.outcome import VerificationOutcome
    from walferry.verification.plan import VerifyPlan


@dataclass(frozen=True)
class Planned:
    """What the tasks compare, and how."""

    source: SourceCluster
    options: Options
    plan: VerifyPlan


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the job's arguments; exit with a usage line if they are wrong."""
    parser = argparse.ArgumentParser(description="Compare the tables of a replication peer's source and slave.")
    parser.add_argument("--source", required=True, help="the source cluster, as SourceCluster.to_json writes it")
    parser.add_argument("--peer", required=True, help="id of the peer")
    parser.add_argument("--run-id", required=True, help="the name under which the result is kept")
    parser.add_argument("--table", action="append", dest="tables", default=[], help="repeat it for more (default: the peer's)")
    parser.add_argument("--options", default="", help="as walferry.verification.job.Options.to_json writes them")
    return parser.parse_args(argv)


def main() -> int:
    """Compare; print one line if the job cannot begin."""
    args = parse_args()
    from walferry.jobs.job import exit_code_of

    return exit_code_of(lambda: _run(args), "nothing is compared")


def _run(args: argparse.Namespace) -> int:
    """Plan while Spark starts, compare each range in a task of its own, keep and print the outcome."""
    began = time.monotonic()
    conf = SparkConf().setAppName(f"walferry verify peer {args.peer}").set("spark.speculation", "false")
    with ThreadPoolExecutor(1) as beside:
        planning = beside.submit(_plan, args)
        with SparkContext(conf=conf) as context:
            context.setLogLevel("WARN")
            started = time.monotonic()
            planned = planning.result()
            parts = _compare(context, planned)
            compared = time.monotonic()
            outcomes = _keep(args, planned, parts)
            _print(outcomes)
            print(f"{started - began:.1f} s to start Spark, {compared - started:.1f} s to compare", flush=True)
    print(json.dumps([asdict(outcome) for outcome in outcomes]))
    return 1 if any(outcome.problem for outcome in outcomes) else 0


def _plan(args: argparse.Namespace) -> Planned:
    """Choose the ranges."""
    from walferry.replication.source.agreement import check_peer
    from walferry.replication.source.cluster import SourceCluster
    from walferry.replication.source.session import open_session
    from walferry.verification.job import Options
    from walferry.verification.plan import plan_verification

    options = Options.from_json(args.options) if args.options else Options()
    source = SourceCluster.from_json(args.source)
    with open_session(source, look_only=True) as session:
        if options.repair:
            check_peer(session, args.peer)  # only Walferry's own peers are shipped to
        return Planned(source, options, plan_verification(session, args.peer, args.tables, options))


def _compare(context: SparkContext, planned: Planned) -> list[VerificationOutcome]:
    """Compare the ranges, one a task."""
    from walferry.verification.task import compare_range

    source, peer, ranges = planned.source, planned.plan.peer, planned.plan.parts
    # However many ranges there are, the driver has to hold their samples.
    options = replace(planned.options, samples=max(1, min(planned.options.samples, MAX_SAMPLES // max(1, len(ranges)))))

    def compare(part: TableRange) -> VerificationOutcome:
        return compare_range(source, peer, part, options)

    return context.parallelize(ranges, len(ranges)).map(compare).collect() if ranges else []


def _keep(args: argparse.Namespace, planned: Planned, parts: list[VerificationOutcome]) -> list[VerificationOutcome]:
    """Write the outcome of each table to ZooKeeper."""
    from walferry.replication.source.session import open_session
    from walferry.verification.outcome import VerificationOutcome, total_of
    from walferry.verification.results import write_result

    samples = planned.options.samples
    tables = sorted({part.table for part in planned.plan.parts})
    outcomes = [total_of(table, [part for part in parts if part.table == table], samples) for table in tables]
    outcomes += [VerificationOutcome(table, problem=problem) for table, problem in planned.plan.problems.items()]
    with open_session(planned.source, look_only=True) as session:
        write_result(session, args.peer, args.run_id, outcomes)
    return outcomes


def _print(outcomes: list[VerificationOutcome]) -> None:
    """Print a line for each table."""
    from walferry.jobs.job import say

    for outcome in outcomes:
        say(f"{outcome.table}: {outcome.good} good rows, {outcome.bad_rows} bad ones {outcome.problem}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
