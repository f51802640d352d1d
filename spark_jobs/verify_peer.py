"""Compares the tables of a peer's source and slave: one Spark task a region; exit code 1 if not all could be compared.

    spark-submit --py-files walferry-….zip spark_jobs/verify_peer.py --source '{"quorum": …}' --peer 2 --run-id … --table t

The outcome is kept in ZooKeeper (walferry.verification.results) and printed, the last line as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext

MAX_SAMPLES = 5000  # of each kind

if TYPE_CHECKING:  # the library is on the path only once Spark has put its archive there
    from walferry.verification.outcome import Outcome


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
    from walferry.errors import WalferryError

    try:
        return _run(args)
    except WalferryError as error:
        print(f"nothing is compared: {error}", file=sys.stderr)
        return 1


def _run(args: argparse.Namespace) -> int:
    """Plan, compare each range in a task of its own, keep and print the outcome."""
    from walferry.source.agreement import check_peer
    from walferry.source.cluster import SourceCluster
    from walferry.source.session import open_session
    from walferry.verification.job import Options, TableRange
    from walferry.verification.outcome import Outcome, total_of
    from walferry.verification.plan import plan_verification
    from walferry.verification.results import write_result
    from walferry.verification.task import compare_range

    began = time.monotonic()
    options = Options.from_json(args.options) if args.options else Options()
    source = SourceCluster.from_json(args.source)
    with open_session(source, look_only=True) as session:
        if options.repair:
            check_peer(session, args.peer)  # only Walferry's own peers are shipped to
        plan = plan_verification(session, args.peer, args.tables, options)

    # However many ranges there are, the driver has to hold their samples.
    of_range = replace(options, samples=max(1, min(options.samples, MAX_SAMPLES // max(1, len(plan.parts)))))

    def compare(part: TableRange) -> Outcome:
        return compare_range(source, plan.peer, part, of_range)

    parts: list[Outcome] = []
    if plan.parts:
        conf = SparkConf().setAppName(f"walferry verify peer {args.peer}").set("spark.speculation", "false")
        context = SparkContext(conf=conf)
        try:
            context.setLogLevel("WARN")
            parts = context.parallelize(plan.parts, len(plan.parts)).map(compare).collect()
        finally:
            context.stop()
    tables = sorted({part.table for part in plan.parts})
    outcomes = [total_of(table, [part for part in parts if part.table == table], options.samples) for table in tables]
    outcomes += [Outcome(table, problem=problem) for table, problem in plan.problems.items()]
    with open_session(source, look_only=True) as session:
        write_result(session, args.peer, args.run_id, outcomes)
    _print(outcomes, time.monotonic() - began)
    return 1 if any(outcome.problem for outcome in outcomes) else 0


def _print(outcomes: list[Outcome], seconds: float) -> None:
    """A line for each table, and all outcomes as JSON."""
    for outcome in outcomes:
        print(f"{outcome.table}: {outcome.good} good rows, {outcome.bad_rows} bad ones {outcome.problem}".rstrip())
    print(f"{seconds:.1f} s")
    print(json.dumps([asdict(outcome) for outcome in outcomes]))


if __name__ == "__main__":
    sys.exit(main())
