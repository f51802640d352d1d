"""A backlog of a peer, drained by HBase's own replication, by Walferry and by HBase's WALPlayer in turns, on the same clusters.

    PYTHONPATH=plugins python -m bench.replication

    WALFERRY_BENCH_MB (284,1420)            sizes of the backlog, in MB of WALs without compression
    WALFERRY_BENCH_REGIONS (4,64)           regions of the table
    WALFERRY_BENCH_WALS (plain,compressed)  compressed: with dictionaries, and values with SNAPPY
    WALFERRY_BENCH_ROUNDS (3)
    WALFERRY_BENCH_WAYS (all)               names of ways (bench.ways), with `;` between them

There is a table for each combination of size, regions and WALs. See bench.drains for what its columns mean. One table alone:

    WALFERRY_BENCH_MB=284 WALFERRY_BENCH_REGIONS=4 WALFERRY_BENCH_WALS=plain python -m bench.replication
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.clusters import ROW_BYTES, TABLE, Bench, Setup, bench
from bench.drains import Aim, measure, warm_up
from bench.ways import Backlog, Way, chosen, ways
from walferry.replication.source.session import open_session
from walferry.shipping.plan import plan_peer

LARGE_ROWS = 3_000_000
WARM_UP_ROWS = 100_000
UNUSED_PEER = "unused"  # that there is a managed peer, if no way needs one


@dataclass(frozen=True)
class Tables:
    """What to measure: a table for each combination of `rows` of the backlog, `regions` of the table, and `wals`."""

    rows: Sequence[int]
    regions: Sequence[int]
    wals: Sequence[str]
    ways: Sequence[Way]
    rounds: int
    round_trip: float = 0.0  # seconds to the peer cluster's RegionServers

    @classmethod
    def asked(cls, mb: str, regions: str, wals: str, default_ways: str = "", **others: float) -> Tables:
        """What the environment asks for, or else these."""
        sizes = os.environ.get("WALFERRY_BENCH_MB", mb).split(",")
        return cls(
            rows=[int(float(size) * 1e6 / ROW_BYTES) for size in sizes],
            regions=[int(count) for count in os.environ.get("WALFERRY_BENCH_REGIONS", regions).split(",")],
            wals=os.environ.get("WALFERRY_BENCH_WALS", wals).split(","),
            ways=chosen(os.environ.get("WALFERRY_BENCH_WAYS", default_ways), ways()),
            rounds=int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3")),
            **others,
        )


def write_backlog(on: Bench, rows: int) -> Backlog:
    """Write `rows` rows and roll: a backlog in closed WALs of all RegionServers."""
    on.client.empty_table(TABLE)
    on.write(rows)
    on.roll()
    with open_session(on.source) as session:
        plan = plan_peer(session, on.setup.managed[0])
    return Backlog(rows, {wal.name: wal.size or 0 for group in plan.groups for wal in group.wals if not wal.finished})


def run(tables: Tables, aims: Callable[[int], Sequence[Aim]]) -> None:
    """Start the clusters, warm up, drain, print: for each kind of WALs."""
    managed = [way.peer for way in tables.ways if way.peer] or [UNUSED_PEER]
    far = f", the peer cluster {tables.round_trip * 1000:g} ms away" if tables.round_trip else ""
    for wals in tables.wals:
        setup = Setup(managed, tables.regions[0], compressed=wals == "compressed", round_trip=tables.round_trip)
        with bench(setup) as on:
            warm_up(on, write_backlog, tables.ways, min(WARM_UP_ROWS, *tables.rows))
            for regions in tables.regions:
                on.resplit(regions)
                for rows in tables.rows:
                    what = f"all queues of a peer, {wals} WALs, {regions} regions{far}"
                    measure(on, write_backlog, tables.ways, what, rows, tables.rounds, aims(rows))


def aims(rows: int) -> list[Aim]:
    """What is aimed at, with backlogs of this size."""
    direct, hfiles = (2.5, 5) if rows >= LARGE_ROWS else (2.5, 3)
    return [
        Aim("direct", times=direct), Aim("hfiles", times=hfiles), Aim("hfiles", beside="WALPlayer, HFiles", times=3),
        Aim("direct", peer_cpu=30), Aim("hfiles", peer_cpu=2),
    ]  # fmt: skip


if __name__ == "__main__":
    run(Tables.asked("284,1420", "4,64", "plain,compressed"), aims)
