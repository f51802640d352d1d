"""Drains of one backlog in several ways, in turns: the table with a row a drain, and the verdict.

Each way drains the same WALs from a queue of its own (see bench.ways) into the peer cluster's table, which is emptied before;
after it the peer cluster's rows are counted. The ways take turns at beginning a round. All drain a small backlog first, so that
none starts cold.

 seconds    while it shipped. HBase's from when its peer is enabled until its queues name no WAL with an unshipped entry or, of a
            queue that no server adds to, no WAL at all
 start      what its task or process takes besides: JVM, Python workers, library, looking for the peer cluster, the end
 whole      both: everything from the start of the task or process to its end
 own        CPU of the processes that ship: the source's RegionServers, Walferry's Python workers; of `hfiles` and
            WALPlayer as `job`
 job        CPU of everything that runs for this alone, from its start to its end: task, driver, workers; none for HBase
 peer       CPU of the peer cluster's RegionServers until the end. Compactions that follow later are not in it
 HDFS       CPU of the one HDFS, on which both clusters lie

The verdict's last columns are medians of CPU-seconds a GB.

A GB is that of WALs without compression, whatever the source's WALs are like, so all tables compare. Ratios are medians of the
rounds' ratios.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.clusters import COLUMNS, ROW_BYTES, TABLE, VALUE_BYTES, Bench, region_servers_cpu
from bench.locations import tell_locations
from bench.processes import cpu_seconds
from bench.ways import HBASE, Backlog, Took, Way

MB, GB = 1e6, 1e9
NAME = 24  # characters of a way's name
HEADER = (
    f"{'':{NAME}}{'':41}{'CPU-seconds a GB':^32}{'peak MB':^16}\n"
    f"{'':{NAME}}{'seconds':>9}{'start':>8}{'whole':>8}{'MB/s':>8}{'whole':>8}"
    f"{'own':>8}{'job':>8}{'peer':>8}{'HDFS':>8}{'job':>8}{'worker':>8}"
)
RULE = "-" * (NAME + 89)


@dataclass(frozen=True)
class Drain:
    """One drain of a backlog. CPU in seconds."""

    by: str
    rows: int
    took: Took
    peer_cpu: float
    hdfs_cpu: float

    @property
    def bytes(self) -> int:
        return self.rows * ROW_BYTES

    def a_gb(self, seconds: float) -> float:
        """So many seconds of the drain, for each GB of it."""
        return seconds / self.bytes * GB

    def line(self) -> str:
        """A row of the table of all drains."""
        took = self.took
        seconds = f"{took.seconds:9.1f}{took.whole - took.seconds:8.1f}{took.whole:8.1f}"
        speeds = f"{self.bytes / MB / took.seconds:8.1f}{self.bytes / MB / took.whole:8.1f}"
        cpu = "".join(f"{self.a_gb(cpu):8.1f}" for cpu in (took.own_cpu, took.job_cpu, self.peer_cpu, self.hdfs_cpu))
        return f"{self.by:{NAME}}{seconds}{speeds}{cpu}{took.peak / MB:8.0f}{took.peak_python / MB:8.0f}"


@dataclass(frozen=True)
class Aim:
    """What is aimed at: that `way` is so many `times` as fast as `beside`, from start to end, or takes no more CPU of the peer
    cluster than `peer_cpu` seconds a GB."""

    way: str
    beside: str = HBASE
    times: float | None = None
    peer_cpu: float | None = None

    def reported(self, drains: Sequence[Drain]) -> str | None:
        """The aim and what was reached; None if one of the ways was left out."""
        by = by_way(drains)
        if self.way not in by or (self.times is not None and self.beside not in by):
            return None
        if self.times is not None:
            ratio = statistics.median(times_as_fast(by[self.beside], by[self.way]))
            return f"{self.way}, from start to end, {self.times:g} times {self.beside}: {_word(ratio >= self.times)}, {ratio:.2f}"
        assert self.peer_cpu is not None
        cpu = statistics.median(d.a_gb(d.peer_cpu) for d in by[self.way])
        return (
            f"{self.way}, at most {self.peer_cpu:g} CPU-seconds of the peer cluster a GB: {_word(cpu <= self.peer_cpu)}, "
            f"{cpu:.1f}"
        )


WriteBacklog = Callable[[Bench, int], Backlog]


def measure(on: Bench, write: WriteBacklog, ways: Sequence[Way], what: str, rows: int, rounds: int, aims: Iterable[Aim]) -> None:
    """Drain, print."""
    megabytes = rows * ROW_BYTES / MB
    print(f"\n{what}: {rounds} rounds of {rows:,} rows, {len(COLUMNS)} cells of {VALUE_BYTES} bytes each ({megabytes:.0f} MB)")
    print(f"{HEADER}\n{RULE}", flush=True)
    drains = [drain for round_ in range(rounds) for drain in in_turn(on, write(on, rows), ways, round_)]
    print(f"{RULE}\n{verdict(drains)}")
    for line in filter(None, (aim.reported(drains) for aim in aims)):
        print(f"aim: {line}")
    print(end="", flush=True)


def warm_up(on: Bench, write: WriteBacklog, ways: Sequence[Way], rows: int) -> None:
    """Let each way drain a small backlog."""
    print(f"to warm up, {rows:,} rows\n{HEADER}\n{RULE}", flush=True)
    in_turn(on, write(on, rows), ways, 0)


def in_turn(on: Bench, backlog: Backlog, ways: Sequence[Way], round_: int) -> list[Drain]:
    """Drain a backlog in each way, and print the drains. Each round begins with another way."""
    first = round_ % len(ways)
    drains = []
    for way in [*ways[first:], *ways[:first]]:
        on.peer_cluster.empty_table(TABLE)
        tell_locations(on)
        drains.append(_drain(on, backlog, way, f"bench-{on.next_run()}"))
        if (found := on.peer_cluster.count_rows(TABLE)) != backlog.rows:
            raise RuntimeError(f"{way.name}: the peer cluster has {found} of {backlog.rows} rows")
        print(drains[-1].line(), flush=True)
    return drains


def _drain(on: Bench, backlog: Backlog, way: Way, run_id: str) -> Drain:
    def cpu() -> tuple[float, float]:
        return region_servers_cpu(on.peer_hbase), cpu_seconds(process.pid for process in on.hdfs.processes)

    peer_cluster, hdfs = cpu()
    took = way.run(on, backlog, run_id)
    peer_cluster_after, hdfs_after = cpu()
    return Drain(way.name, backlog.rows, took, peer_cluster_after - peer_cluster, hdfs_after - hdfs)


def verdict(drains: Sequence[Drain]) -> str:
    """Medians of each way, and its ratios to HBase, with everything from start to end, and while it ships."""
    by = by_way(drains)
    speeds = f"{'times as fast as HBase (each round)':36}{'without start':>14}"
    lines = [f"{'medians':{NAME}}{'whole':>9}  {speeds} {'peer':>8}{'own':>8}{'job':>8}"]
    for way, theirs in by.items():
        whole = statistics.median(map(_whole, theirs))
        cpu = [statistics.median(map(a_gb, theirs)) for a_gb in (_peer_cluster, _own, _job)]
        ratios = ["", ""]
        if HBASE in by and way != HBASE:
            both = [times_as_fast(by[HBASE], theirs, seconds) for seconds in (_whole, _shipping)]
            each = ", ".join(f"{ratio:.2f}" for ratio in both[0])
            ratios = [f"{statistics.median(both[0]):.2f} ({each})", f"{statistics.median(both[1]):.2f}"]
        lines.append(f"{way:{NAME}}{whole:9.1f}  {ratios[0]:36}{ratios[1]:>14} {''.join(f'{c:8.1f}' for c in cpu)}")
    return "\n".join(lines)


def by_way(drains: Sequence[Drain]) -> dict[str, list[Drain]]:
    """The drains of each way, round by round. HBase's first."""
    names = sorted({d.by for d in drains}, key=lambda name: (name != HBASE, [d.by for d in drains].index(name)))
    return {name: [d for d in drains if d.by == name] for name in names}


def _whole(drain: Drain) -> float:
    return drain.took.whole


def times_as_fast(
    theirs: Sequence[Drain], ours: Sequence[Drain], seconds: Callable[[Drain], float] = _whole
) -> list[float]:  # fmt: skip
    """How many times as fast our drains were as theirs, round by round: everything from start to end."""
    return [seconds(their) / seconds(our) for their, our in zip(theirs, ours, strict=True)]


def _shipping(drain: Drain) -> float:
    return drain.took.seconds


def _peer_cluster(drain: Drain) -> float:
    return drain.a_gb(drain.peer_cpu)


def _own(drain: Drain) -> float:
    return drain.a_gb(drain.took.own_cpu)


def _job(drain: Drain) -> float:
    return drain.a_gb(drain.took.job_cpu)


def _word(reached: bool) -> str:
    return "reached" if reached else "NOT reached"
