"""Ships what a managed peer has queued: one Spark task and one outcome line for each WAL group; exit code 1 if any group failed.

    spark-submit --py-files walferry-….zip spark_jobs/ship_wals.py --source '{"quorum": …}' --peer 2 --run-id … --deadline 3600

While the job runs, the summaries of all groups are kept in ZooKeeper (walferry.shipping.summary). The last line printed is the
summaries as JSON. How hard the slave is tried, and with how many connections, is a matter of the peer and the source's connection
(walferry.source.knobs).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext

if TYPE_CHECKING:  # the library is on the path only once Spark has put its archive there
    from walferry.queues.finding import Place
    from walferry.shipping.summary import GroupSummary
    from walferry.source.cluster import SourceCluster
    from walferry.source.knobs import Knobs


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the job's arguments; exit with a usage line if they are wrong."""
    parser = argparse.ArgumentParser(description="Ship what a managed HBase replication peer has queued.")
    parser.add_argument("--source", required=True, help="the source cluster, as SourceCluster.to_json writes it")
    parser.add_argument("--peer", required=True, help="id of the managed peer")
    parser.add_argument("--group", action="append", dest="groups", help="a WAL group to ship; repeat it for more (default all)")
    parser.add_argument("--run-id", required=True, help="the name under which the summary is kept; a retry has the same")
    parser.add_argument("--keep", type=float, help="seconds for which the summary is kept at least (default: deadline + an hour)")
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds after which nothing more is read (default 3600)")
    parser.add_argument(
        "--broken-wals", choices=["stop", "whole-entries", "quarantine"], default="stop",
        help="what becomes of a broken WAL: see walferry.files.quarantine (default stop)",
    )  # fmt: skip
    parser.add_argument(
        "--sink", choices=["configured", "direct", "replicate"], default="configured",
        help="how edits are sent to the slave: see walferry.source.knobs.SinkKind (default: as the peer or the source says)",
    )  # fmt: skip
    args = parser.parse_args(argv)
    if not args.deadline > 0:
        parser.error(f"--deadline is {args.deadline:g}; it must be more than 0 seconds")
    return args


def main() -> int:
    """Ship; print one line if the job cannot begin."""
    args = parse_args()
    from walferry.spark.job import exit_code_of

    return exit_code_of(lambda: _run(args), "nothing is shipped")


def _run(args: argparse.Namespace) -> int:
    """Begin the run, ship what there is, and print the outcome."""
    from walferry.source.cluster import SourceCluster

    deadline = time.time() + args.deadline
    source = SourceCluster.from_json(args.source)
    knobs, groups = _begin(source, args)
    if not groups:
        print(f"peer {args.peer}: no closed WALs are queued" + (f" in {', '.join(args.groups)}" if args.groups else ""))
        return 0
    summaries = _ship(source, knobs, groups, args, deadline)
    _keep(source, args, summaries)
    _print(summaries)
    return 1 if any(s.failed for s in summaries) else 0


def _begin(source: SourceCluster, args: argparse.Namespace) -> tuple[Knobs, list[tuple[str, Place | None]]]:
    """Check that the peer may be shipped and find its WAL groups, each with its queue. Note the run in ZooKeeper."""
    from walferry.bootstrap.records import under_way
    from walferry.files.quarantine import BrokenWals
    from walferry.shipping.plan import groups_to_ship
    from walferry.shipping.runs import begin_run
    from walferry.shipping.slave_down import forget_down
    from walferry.source.agreement import check_peer
    from walferry.source.cluster import SourceError
    from walferry.source.knobs import Knobs, SinkKind
    from walferry.source.session import open_session

    if args.broken_wals == BrokenWals.QUARANTINE and source.quarantine is None:
        raise SourceError(
            "broken WALs can be put into quarantine only if the source connection's extra has `quarantine`, the URL of a folder"
        )
    with open_session(source) as session:
        knobs = Knobs.of(source.replication, check_peer(session, args.peer))
        if args.sink != "configured":
            knobs = replace(knobs, sink=SinkKind(args.sink))
        if (copying := under_way(session, args.peer)) is not None:
            raise copying
        groups = groups_to_ship(session, args.peer, args.groups)
        begin_run(session, args.peer, args.run_id, args.deadline + 3600 if args.keep is None else args.keep)
        forget_down(session, args.peer, args.run_id)
    return knobs, groups


def _ship(
    source: SourceCluster, knobs: Knobs, groups: list[tuple[str, Place | None]], args: argparse.Namespace, deadline: float
) -> list[GroupSummary]:
    """Ship each group in a Spark task of its own."""
    from walferry.files.quarantine import BrokenWals
    from walferry.shipping.attempt import GroupJob
    from walferry.shipping.group import ship_group
    from walferry.shipping.lanes import lanes_of_each

    lanes = lanes_of_each(len(groups), knobs.lanes)

    def ship(found: tuple[str, Place | None]) -> GroupSummary:
        group, place = found
        holder = f"run {args.run_id} on {socket.gethostname()}, process {os.getpid()}"
        job = GroupJob(
            source=source, peer_id=args.peer, group=group, place=place, run_id=args.run_id, holder=holder,
            deadline=deadline, lanes=lanes, broken_wals=BrokenWals(args.broken_wals), knobs=knobs,
        )  # fmt: skip
        return ship_group(job)

    # A speculative copy of a task would only wait for the lease that the first one holds.
    conf = SparkConf().setAppName(f"walferry ship peer {args.peer}").set("spark.speculation", "false")
    context = SparkContext(conf=conf)
    try:
        context.setLogLevel("WARN")
        return context.parallelize(groups, len(groups)).map(ship).collect()
    finally:
        context.stop()


def _print(summaries: list[GroupSummary]) -> None:
    """A line for each group, and all summaries as JSON."""
    from walferry.shipping.summary import Status

    for s in summaries:
        print(f"{s.group}: {s.status}, shipped {s.completedLogs} WALs, {s.shippedOps} operations, {s.shippedBytes} bytes")
        if s.status is not Status.DONE and s.error:
            print(f"{s.group}: {s.error}", file=sys.stderr)
    print(json.dumps([asdict(s) for s in summaries]))


def _keep(source: SourceCluster, args: argparse.Namespace, summaries: list[GroupSummary]) -> None:
    """Write the summaries that their tasks could not write themselves."""
    from walferry.shipping.runs import read_group, write_group
    from walferry.source.session import open_session

    with open_session(source) as session:
        for s in summaries:
            if read_group(session, args.peer, args.run_id, s.group) is None:
                write_group(session, args.peer, args.run_id, s)


if __name__ == "__main__":
    sys.exit(main())
