"""Ships what a managed peer has queued: one Spark task and one outcome line for each WAL group; exit code 1 if any group failed.

    spark-submit --py-files walferry-….zip spark_jobs/ship_wals.py --source '{"quorum": …}' --peer 2 --run-id … --deadline 3600

While the job runs, the summaries of all groups are kept in ZooKeeper (walferry.engine.summary). The last line printed is the
summaries as JSON. How hard the slave is tried, and with how many connections, is a matter of the peer and the source's connection
(walferry.replication.peers.settings).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext

if TYPE_CHECKING:  # the library is on the path only once Spark has put its archive there
    from walferry.engine.summary import GroupSummary
    from walferry.jobs.ship_run import ShipRun, Tell
    from walferry.shipping.bulkload.driver import SpreadLoad
    from walferry.shipping.group_job import GroupJob


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the job's arguments; exit with a usage line if they are wrong."""
    parser = argparse.ArgumentParser(description="Ship what a managed HBase replication peer has queued.")
    parser.add_argument("--source", required=True, help="the source cluster, as SourceCluster.to_json writes it")
    parser.add_argument("--peer", required=True, help="id of the managed peer")
    parser.add_argument("--group", action="append", dest="groups", help="a WAL group to ship; repeat it for more (default all)")
    parser.add_argument("--run-id", required=True, help="the name under which the summary is kept; a retry has the same")
    parser.add_argument("--recovery", action="store_true", help="ship only the queues that the run's plan has noted in ZooKeeper")
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds after which nothing more is read (default 3600)")
    parser.add_argument(
        "--broken-wals", choices=["stop", "whole-entries", "quarantine"], default="stop",
        help="what becomes of a broken WAL: see walferry.hbase.files.quarantine (default stop)",
    )  # fmt: skip
    parser.add_argument(
        "--sink", choices=["direct", "replicate", "hfiles", "auto"],
        help="how edits are sent to the slave: see SinkKind in walferry.replication.peers.settings (default: as the peer "
        "or the source says)",
    )  # fmt: skip
    parser.add_argument("--hfiles-from", type=int, help="bytes of WALs from which auto makes files of them")
    args = parser.parse_args(argv)
    if not args.deadline > 0:
        parser.error(f"--deadline is {args.deadline:g}; it must be more than 0 seconds")
    return args


def main() -> int:
    """Ship; print one line if the job cannot begin."""
    args = parse_args()
    from walferry.jobs.job import exit_code_of

    return exit_code_of(lambda: _run(args), "nothing is shipped")


def _run(args: argparse.Namespace) -> int:
    """Begin the run, ship what there is, and print the outcome."""
    from walferry.hbase.files.quarantine import BrokenWals
    from walferry.jobs.job import say
    from walferry.jobs.ship_run import ShipRun, begin, finish, load_files, nothing_queued
    from walferry.replication.peers.settings import SinkKind
    from walferry.replication.source.cluster import SourceCluster

    run = ShipRun(
        source=SourceCluster.from_json(args.source), peer_id=args.peer, run_id=args.run_id, deadline=args.deadline,
        groups=args.groups, recovery=args.recovery, broken_wals=BrokenWals(args.broken_wals),
        sink=args.sink and SinkKind(args.sink), hfiles_from=args.hfiles_from,
    )  # fmt: skip
    jobs = begin(run)
    if not jobs:
        print(nothing_queued(run))
        return 0
    left = load_files(run, jobs, lambda tell: _spread(run, tell), say)
    summaries = [*left.done, *(_ship(run, left.jobs) if left.jobs else ())]
    finish(run, summaries)
    _print(summaries)
    return 1 if any(s.failed for s in summaries) else 0


def _conf(run: ShipRun) -> SparkConf:
    # A speculative copy of a task would only wait for the lease that the first one holds, or load the same files again.
    conf = SparkConf().setAppName(f"walferry ship peer {run.peer_id}").set("spark.speculation", "false")
    # What is worth it is compressed before Spark gets it (walferry.shipping.bulkload.rows).
    conf.setIfMissing("spark.shuffle.compress", "false")
    return conf


def _spread(run: ShipRun, tell: Tell) -> SpreadLoad:
    """What runs the tasks of a load."""
    from pyspark.sql import SparkSession

    from walferry.jobs.load_spread import SparkSpread

    session = SparkSession.builder.config(conf=_conf(run)).getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return SparkSpread(session, tell)


def _ship(run: ShipRun, jobs: Sequence[GroupJob]) -> list[GroupSummary]:
    """Ship each group in a Spark task of its own."""
    from walferry.jobs.ship_run import ship

    context = SparkContext.getOrCreate(_conf(run))
    context.setLogLevel("WARN")
    # The context is not stopped here, which would take a second: the JVM does it as it ends.
    return context.parallelize(jobs, len(jobs)).map(ship).collect()


def _print(summaries: list[GroupSummary]) -> None:
    """Lines for each group, and all summaries as JSON."""
    from walferry.jobs.job import say, tell
    from walferry.jobs.ship_run import outcome

    for s in summaries:
        line, *errors = outcome(s)
        say(line)
        for error in errors:
            tell(error)
    print(json.dumps([asdict(s) for s in summaries]))


if __name__ == "__main__":
    sys.exit(main())
