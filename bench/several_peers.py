"""What a second peer costs if the files of both are made in one job (`hfiles.with`), beside one peer alone, in turns.

    PYTHONPATH=plugins python -m bench.several_peers

    WALFERRY_BENCH_MB (284)   size of the backlog, in MB of WALs without compression
    WALFERRY_BENCH_ROUNDS (3)

Both peers lead to one peer cluster, which loads each file twice. See bench.drains for what the columns mean; seconds and CPU are
those of a job for one peer, and of a job for both. The last line has the medians of the second peer's CPU-seconds a GB.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import replace

from bench.clusters import ROW_BYTES, Bench, Setup, bench
from bench.drains import HEADER, RULE, Drain, by_way, in_turn, warm_up
from bench.replication import write_backlog
from bench.ways import Backlog, Took, Way, walferry
from walferry.admin.changing import set_values
from walferry.admin.peers import PeerAdmin
from walferry.replication.source.session import open_session

REGIONS = 4
WARM_UP_ROWS = 100_000
SECOND = "second"  # the peer that joins
ALONE, BOTH = walferry("one peer", "hfiles"), walferry("two peers", "hfiles", along=[SECOND])


def both(on: Bench, backlog: Backlog, run_id: str) -> Took:
    """Drain both peers in one job. Raises RuntimeError unless it has drained the second one, too."""
    took = BOTH.run(on, backlog, run_id)
    with open_session(on.source) as session:
        if backlog.left(session, SECOND):
            raise RuntimeError(f"the second peer was left to its own run:\n{on.log.read_text()[-4000:]}")
    return took


def main() -> None:
    """Start the clusters, drain, print."""
    rows = int(float(os.environ.get("WALFERRY_BENCH_MB", "284")) * 1e6 / ROW_BYTES)
    rounds = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3"))
    ways: list[Way] = [ALONE, replace(BOTH, run=both)]
    with bench(Setup([*(way.peer for way in ways if way.peer), SECOND], REGIONS)) as on:
        with open_session(on.source) as session:
            set_values(PeerAdmin(session), SECOND, {"hfiles.with": str(BOTH.peer)})
        warm_up(on, write_backlog, ways, WARM_UP_ROWS)
        print(f"{rounds} rounds of {rows:,} rows ({rows * ROW_BYTES / 1e6:.0f} MB)\n{HEADER}\n{RULE}", flush=True)
        drains = [drain for i in range(rounds) for drain in in_turn(on, write_backlog(on, rows), ways, i)]
    print(f"{RULE}\n{_second(drains)}")


def _second(drains: list[Drain]) -> str:
    """Say what the second peer takes more than the first one."""

    def more(figure: str) -> float:
        def of(drain: Drain) -> float:
            return {"job": drain.took.job_cpu, "hdfs": drain.hdfs_cpu, "peer": drain.peer_cpu}[figure]

        by = by_way(drains)
        pairs = zip(by[ALONE.name], by[BOTH.name], strict=True)
        return statistics.median(two.a_gb(of(two)) - one.a_gb(of(one)) for one, two in pairs)

    return (
        f"the second peer, CPU-seconds a GB: job {more('job'):.1f}, peer cluster {more('peer'):.1f}, HDFS {more('hdfs'):.1f} "
        "(aim: job at most 1.5)"
    )


if __name__ == "__main__":
    main()
