"""A backlog, drained by HBase's own replication and by Walferry in turn, on the same clusters in the same run: see bench.drains.

    PYTHONPATH=plugins python -m bench.replication        WALFERRY_BENCH_ROWS (1000000), WALFERRY_BENCH_ROUNDS (3)
"""

from __future__ import annotations

import os

from bench.drains import TABLE, Backlog, Bench, bench, measure
from walferry.airflow.steps import batch
from walferry.queues.rolling import roll
from walferry.source.session import open_session

ROWS = int(os.environ.get("WALFERRY_BENCH_ROWS", "1000000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3"))


def write_backlog(on: Bench, rows: int) -> Backlog:
    """Write `rows` rows and roll: a backlog in closed WALs of all RegionServers."""
    on.client.empty_table(TABLE)
    on.slave.empty_table(TABLE)
    on.write(rows)
    with open_session(on.source) as session:
        rolled = roll(session, ["walferry"])
    if rolled.failures:
        raise RuntimeError(f"not rolled: {rolled.failures}")
    return Backlog(rows, batch.plan(on.source, "walferry", "bench").bytes)


def main() -> None:
    """Start the clusters, warm up, drain, print."""
    with bench() as both:
        measure(both, write_backlog, "all queues of a peer", ROWS, ROUNDS)


if __name__ == "__main__":
    main()
