"""Copies the tables of a new peer to its slave: a Spark task for some regions at a time; exit code 1 if any region failed.

    spark-submit --py-files walferry-….zip spark_jobs/copy_tables.py --source '{"quorum": …}' --peer 2 --run-id … [--table t]…

What is copied is noted in ZooKeeper (walferry.load.copy_records), so the job may be killed at any time, and the next one goes on.
While it runs, it prints how far it is. The last line printed is the copy's state as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext

if TYPE_CHECKING:  # the library is on the path only once Spark has put its archive there
    from walferry.initial_snapshot.job import CopyRequest
    from walferry.initial_snapshot.region_copy import RegionOutcome, RegionTask

TASKS_A_CORE = 8  # each connects to both clusters once, and the last ones should end at about the same time


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the job's arguments; exit with a usage line if they are wrong."""
    parser = argparse.ArgumentParser(description="Copy the tables of a new managed HBase replication peer to its slave.")
    parser.add_argument("--source", required=True, help="the source cluster, as SourceCluster.to_json writes it")
    parser.add_argument("--peer", required=True, help="id of the managed peer")
    parser.add_argument("--run-id", required=True, help="the name of the run; a retry has the same")
    parser.add_argument("--table", action="append", dest="tables", default=[], help="a table (default: all of the peer's)")
    parser.add_argument("--allow-not-empty", action="store_true", help="copy into tables that have rows at the slave")
    return parser.parse_args(argv)


def main() -> int:
    """Copy; print one line if the job cannot begin."""
    args = parse_args()
    from walferry.jobs.job import exit_code_of

    return exit_code_of(lambda: _run(args), "the initial snapshot has stopped")


def _run(args: argparse.Namespace) -> int:
    """Copy, and print what has failed and the copy's state."""
    from walferry.initial_snapshot.job import CopyRequest, initial_snapshot
    from walferry.jobs.job import say, tell
    from walferry.replication.source.cluster import SourceCluster

    request = CopyRequest(
        source=SourceCluster.from_json(args.source), peer_id=args.peer, run=args.run_id, tables=tuple(args.tables),
        allow_not_empty=args.allow_not_empty, say=say,
    )  # fmt: skip
    copied = initial_snapshot(request, lambda tasks: _in_spark(request, tasks))
    for error in copied.errors:
        tell(error)
    print(json.dumps(asdict(copied.state)))
    return 0 if copied.state.complete else 1


def _in_spark(request: CopyRequest, tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
    """Copy the regions, the largest first, spread over the partitions."""
    source, peer_id = request.source, request.peer_id

    def copy(some: Iterable[RegionTask]) -> Iterator[RegionOutcome]:
        from walferry.initial_snapshot.region_copy import copy_regions

        return copy_regions(source, peer_id, some)

    # A speculative copy of a task would load the same files again.
    conf = SparkConf().setAppName(f"walferry initial snapshot of peer {peer_id}").set("spark.speculation", "false")
    context = SparkContext(conf=conf)
    try:
        context.setLogLevel("WARN")
        count = min(len(tasks), TASKS_A_CORE * context.defaultParallelism)
        dealt = [task for first in range(count) for task in tasks[first::count]]
        return list(context.parallelize(dealt, count).mapPartitions(copy).collect())
    finally:
        context.stop()


if __name__ == "__main__":
    sys.exit(main())
