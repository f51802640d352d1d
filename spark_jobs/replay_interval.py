"""Ships again to one peer all that was written in an interval; exit code 1 if anything of it was not shipped.

    spark-submit --py-files walferry-….zip spark_jobs/replay_interval.py --source '{"quorum": …}' --peer 2 --run-id …
        --from 1700000000000 --to 1700003600000

First all WALs are scanned, a Spark task each. Then they are shipped, a task for each WAL group. While the job runs, the summaries
of all groups are kept in ZooKeeper (walferry.engine.summary). The last line printed is the summaries as JSON. No queue is read
or changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from pyspark import SparkConf, SparkContext

T = TypeVar("T")
MOST_TASKS = 5000  # of a stage; there may be more WALs
KEPT_SECONDS = 3600  # for which a summary is kept beyond the deadline


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the job's arguments; exit with a usage line if they are wrong."""
    parser = argparse.ArgumentParser(description="Ship again to one peer all that was written in an interval.")
    parser.add_argument("--source", required=True, help="the source cluster, as SourceCluster.to_json writes it")
    parser.add_argument("--peer", required=True, help="id of the managed peer")
    parser.add_argument("--from", required=True, type=int, dest="start", help="first write time, in ms since the epoch")
    parser.add_argument("--to", required=True, type=int, dest="end", help="the interval's end, in ms since the epoch")
    parser.add_argument("--table", action="append", dest="tables", help="a table to ship; repeat it for more (default all)")
    parser.add_argument("--run-id", required=True, help="the name under which the summary is kept; a retry has the same")
    parser.add_argument("--deadline", type=float, required=True, help="seconds after which nothing more is read")
    parser.add_argument("--dry-run", action="store_true", help="only count what the interval has")
    parser.add_argument("--what-is-there", action="store_true", help="ship what is left of an interval that is partly gone")
    return parser.parse_args(argv)


def main() -> int:
    """Ship; print one line if the job cannot begin."""
    args = parse_args()
    from walferry.jobs.job import exit_code_of

    return exit_code_of(lambda: _run(args), "nothing is shipped")


def _run(args: argparse.Namespace) -> int:
    from walferry.engine.summary import Status
    from walferry.jobs.job import say, tell
    from walferry.replay.interval import Interval
    from walferry.replay.job import ReplayJob
    from walferry.replay.run import replay
    from walferry.replication.source.cluster import SourceCluster

    job = ReplayJob(
        source=SourceCluster.from_json(args.source), peer_id=args.peer, interval=Interval(args.start, args.end),
        run_id=args.run_id, deadline=time.time() + args.deadline, tables=frozenset(args.tables or ()),
        what_is_there=args.what_is_there,
    )  # fmt: skip
    conf = SparkConf().setAppName(f"walferry replay peer {args.peer}").set("spark.speculation", "false")
    context = SparkContext(conf=conf)

    def spread(function: Callable[[Any], T], things: Sequence[Any]) -> list[T]:
        return context.parallelize(things, min(len(things), MOST_TASKS)).map(function).collect() if things else []

    try:
        context.setLogLevel("WARN")
        summaries = replay(job, spread, dry_run=args.dry_run, keep_seconds=args.deadline + KEPT_SECONDS)
    finally:
        context.stop()
    for s in summaries:
        say(f"{s.group}: {s.status}, {s.completedLogs} WALs, shipped {s.shippedOps} operations, {s.shippedBytes} bytes")
        if s.error:
            tell(f"{s.group}: {s.error}")
    print(json.dumps([asdict(s) for s in summaries]))
    return 1 if any(s.status is not Status.DONE for s in summaries) else 0


if __name__ == "__main__":
    sys.exit(main())
