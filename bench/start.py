"""Small batches through spark-submit and through a Spark Connect server, in turns, from the task's start to its end.

    PYTHONPATH=plugins python -m bench.start     WALFERRY_BENCH_START_MB (5), WALFERRY_BENCH_START_ROUNDS (5),
                                                 WALFERRY_BENCH_START_PAUSE (0): seconds before each batch
                                                 WALFERRY_BENCH_START_SINK (direct)

`shipping` is the part of the task (bench.task) from when a WAL group is taken until it is done.

After a minute without a job a server ends its idle Python workers. A pause of more than 60 s shows what that costs.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass

from bench.clusters import MANAGED_PEER, ROW_BYTES, TABLE, Bench, bench
from bench.task import Place, Shipping, ship

MEGABYTES = float(os.environ.get("WALFERRY_BENCH_START_MB", "5"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_START_ROUNDS", "5"))
PAUSE_SECONDS = float(os.environ.get("WALFERRY_BENCH_START_PAUSE", "0"))
SINK = os.environ.get("WALFERRY_BENCH_START_SINK", "direct")
WAYS = ("spark-submit", "Connect")


@dataclass(frozen=True)
class Batch:
    """One batch. Times are in seconds."""

    by: str
    seconds: float  # from the task's start to its end
    shipping: float  # of these, while the WAL groups were being shipped
    cpu: float  # of the task and its children
    server_cpu: float  # of the Spark Connect server with its Python processes, meanwhile

    def line(self) -> str:
        return f"{self.by:13} {self.seconds:8.2f} {self.shipping:9.2f} {self.cpu:9.2f} {self.server_cpu:11.2f}"


def one_round(on: Bench, rows: int, round_: int, peer: str = MANAGED_PEER) -> list[Batch]:
    """Write and ship a batch each way; the ways take turns at being the first. `peer` has nothing queued before."""
    done = []
    for by in WAYS if round_ % 2 == 0 else reversed(WAYS):
        on.write(rows)
        on.roll()
        time.sleep(PAUSE_SECONDS)
        place = Place(on.connect() if by == "Connect" else None)
        ran = ship(Shipping(on.source, peer, f"bench-{by}-{round_}", SINK, place=place), on.log)
        done.append(Batch(by, ran.seconds, ran.shipping, ran.used.cpu_seconds, ran.server.cpu_seconds))
        print(done[-1].line(), flush=True)
    return done


def main() -> None:
    """Start the clusters and the server, warm up, ship in turns, print ratios."""
    rows = max(1, int(MEGABYTES * 1e6 / ROW_BYTES))
    with bench() as on:
        print(f"{ROUNDS} rounds of {rows:,} rows, about {MEGABYTES:g} MB of {TABLE}'s WALs, {SINK}, after one to warm up")
        print(f"{'':13} {'seconds':>8} {'shipping':>9} {'task CPU':>9} {'server CPU':>11}", flush=True)
        one_round(on, rows, 0)
        print("-" * 54, flush=True)
        batches = [each for round_ in range(1, ROUNDS + 1) for each in one_round(on, rows, round_)]
        by = {way: [b for b in batches if b.by == way] for way in WAYS}
        medians = {way: statistics.median(b.seconds for b in by[way]) for way in WAYS}
        ratios = sorted(s.seconds / c.seconds for s, c in zip(by["spark-submit"], by["Connect"], strict=True))
        print("-" * 54)
        print(f"medians: spark-submit {medians['spark-submit']:.2f} s, Connect {medians['Connect']:.2f} s")
        print(f"spark-submit / Connect: {statistics.median(ratios):.1f} (median; {', '.join(f'{r:.1f}' for r in ratios)})")


if __name__ == "__main__":
    main()
