"""Equal tables, and then tables with differences, compared by HBase's VerifyReplication and by Walferry in turns.

    PYTHONPATH=plugins python -m bench.verification      WALFERRY_BENCH_ROWS (1000000), WALFERRY_BENCH_ROUNDS (3)

HBase's job runs under MapReduce's local runner, with a map a core at a time and 2000 rows a call. The ways:

    VerifyReplication        from the start of the JVM that `hbase org.apache…VerifyReplication` starts, to its end
    VerifyReplication, warm  in a JVM that has run the job before, from when it is asked for until its counters are there
    Connect                  a task of Airflow (bench.task) from its start to its end, through a Spark Connect server that is up
    Connect, files           the same, with from_files
    spark-submit             as Connect, through spark-submit

 seconds    from start to end
 job        CPU-seconds of everything that runs for this: the JVM; Walferry's task with its children, and the Spark Connect server
 servers    CPU-seconds of the RegionServers of both clusters meanwhile
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.clusters import MANAGED_PEER, TABLE, TIMEOUT_SECONDS, Bench, bench, region_servers_cpu
from bench.executor import TaskInstance
from bench.processes import TreeUsage
from bench.replication import write_backlog
from bench.task import Place, TaskRun, operate
from embedded.client import JavaClient
from embedded.spark import submit
from embedded.spark_connect import ConnectServer
from embedded.verify_replication import counters_of, start_verify_replication
from embedded.wire import delete_row, put
from walferry.base.zk.client import connected
from walferry.hbase.layout import ZNodes
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.runs.values import run_of
from walferry.verification.outcome import DifferenceKind
from walferry.verification.results import read_result

ROWS = int(os.environ.get("WALFERRY_BENCH_ROWS", "1000000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3"))
HBASE, WARM_HBASE = "VerifyReplication", "VerifyReplication, warm"
CONNECT, FILES, SUBMITTED = "Connect", "Connect, files", "spark-submit"
RATIOS = ((HBASE, CONNECT), (HBASE, FILES), (HBASE, SUBMITTED), (WARM_HBASE, CONNECT))
OPERATOR = "walferry.airflow.tasks.verification:VerifyPeerOperator"
COUNTERS = ("GOODROWS", "BADROWS", *DifferenceKind)
NAME = 24  # characters of a way's name
HEADER = f"{'':{NAME}}{'seconds':>9}{'job CPU':>9}{'servers':>9}"


@dataclass(frozen=True)
class Sides:
    """A table on both sides, the client of the source's side, and where Walferry's jobs run. `servers_cpu` returns the
    CPU-seconds of both sides' RegionServers so far."""

    client: JavaClient
    source: SourceCluster
    peer: str
    table: str
    folder: Path
    server: ConnectServer
    servers_cpu: Callable[[], float]

    @property
    def log(self) -> Path:
        """The output of Walferry's tasks."""
        return self.folder / "verify.log"


@dataclass(frozen=True)
class Took:
    """What a job took, and what it has counted."""

    seconds: float
    cpu: float
    counters: dict[str, int]


@dataclass(frozen=True)
class Comparison:
    """One comparison. CPU in seconds."""

    by: str
    seconds: float
    job_cpu: float
    servers_cpu: float
    counters: dict[str, int]

    def line(self) -> str:
        return f"{self.by:{NAME}}{self.seconds:9.2f}{self.job_cpu:9.2f}{self.servers_cpu:9.2f}"


def by_hbase(on: Sides, run_id: str) -> Took:
    """Run the job in a JVM of its own."""
    began = time.monotonic()
    maps = len(os.sched_getaffinity(0))
    job = start_verify_replication(on.client.address, on.peer, on.table, ["f"], on.folder / run_id, maps=maps)
    usage = TreeUsage(job.pid)
    counters = counters_of(job, TIMEOUT_SECONDS)
    return Took(time.monotonic() - began, usage.stop().cpu_seconds, counters)


def by_warm_hbase(on: Sides, run_id: str) -> Took:
    """Run the job in the JVM of the Java client."""
    usage, began = TreeUsage(on.client.pid), time.monotonic()
    counters = on.client.verify_replication(on.table, on.peer, ["f"])
    return Took(time.monotonic() - began, usage.stop().cpu_seconds, counters)


def by_connect(on: Sides, run_id: str) -> Took:
    """Run the task through the Spark Connect server."""
    return _by_task(on, run_id, Place(on.server))


def by_files(on: Sides, run_id: str) -> Took:
    """Run the task through the Spark Connect server, and compare files first."""
    return _by_task(on, run_id, Place(on.server), from_files=True)


def by_spark_submit(on: Sides, run_id: str) -> Took:
    """Run the task through spark-submit."""
    return _by_task(on, run_id, Place(slots=len(os.sched_getaffinity(0))))


def _by_task(on: Sides, run_id: str, place: Place, *, from_files: bool = False) -> Took:
    ran = _task(on, run_id, place, from_files)
    with open_session(on.source, look_only=True) as session:
        (outcome,) = read_result(session, on.peer, run_of(TaskInstance(run_id))) or []
    if outcome.problem:
        raise RuntimeError(outcome.problem)
    bad = {str(kind): count for kind, count in outcome.bad.items()}
    return Took(ran.seconds, ran.cpu_seconds, {"GOODROWS": outcome.good, "BADROWS": outcome.bad_rows, **bad})


def _task(on: Sides, run_id: str, place: Place, from_files: bool) -> TaskRun:
    no_limits = dict.fromkeys(("start_row", "stop_row", "start_time", "end_time"))
    once = {"versions": 1, "deleted": False, "recompares": 0, "recompare_seconds": 0, "repair": False, "from_files": from_files}
    params = {"tables": [on.table], **no_limits, **once}
    return operate("verify_peer", OPERATOR, {"peer": on.peer}, params, on.source, run_id, place, on.log)


WAYS: dict[str, Callable[[Sides, str], Took]] = {
    HBASE: by_hbase, WARM_HBASE: by_warm_hbase, CONNECT: by_connect, FILES: by_files, SUBMITTED: by_spark_submit
}  # fmt: skip


def in_turn(on: Sides, round_: int, ways: Collection[str] = tuple(WAYS)) -> list[Comparison]:
    """Compare in each way, check that all count the same, and print. Each round begins with another way."""
    first = round_ % len(ways)
    done = list[Comparison]()
    for by in [*ways][first:] + [*ways][:first]:
        before = on.servers_cpu()
        took = WAYS[by](on, f"verify-{time.time_ns()}")
        counters = {name: took.counters.get(name, 0) for name in COUNTERS}
        done.append(Comparison(by, took.seconds, took.cpu, on.servers_cpu() - before, counters))
        if counters != done[0].counters:
            raise RuntimeError(f"{by} counts {counters}, {done[0].by} {done[0].counters}")
        print(done[-1].line(), flush=True)
    return done


def times_as_fast(done: Sequence[Comparison], theirs: str, ours: str) -> list[float]:
    """How many times as fast one way was as another, from start to end, round by round."""
    return [their.seconds / our.seconds for their, our in zip(of_way(done, theirs), of_way(done, ours), strict=True)]


def of_way(done: Sequence[Comparison], by: str) -> list[Comparison]:
    """The comparisons of one way, round by round."""
    return [each for each in done if each.by == by]


def plant_differences(source: SourceCluster, peer_cluster: JavaClient, table: str) -> None:
    """Make a few rows of the peer cluster missing, extra and different, all over the table."""
    with connected(source.quorum) as zk, Tables(zk, ZNodes(source.znode_parent)) as tables:
        keys = [block.key(0) for block in tables.scan(table, ScanSpec())]
    peer_cluster.write(table, [delete_row(key) for key in keys[1::3]])
    peer_cluster.write(table, [put(key + b"x", {"f:a": b"extra"}) for key in keys[2::3]])
    peer_cluster.write(table, [put(key, {"f:a": b"different"}) for key in keys[3::3]])


def sides_of(on: Bench, peer: str) -> Sides:
    """The benchmark's table, as the peer of this id gets it."""

    def servers_cpu() -> float:
        return region_servers_cpu(on.source_cluster) + region_servers_cpu(on.peer_hbase)

    return Sides(on.client, on.source, peer, TABLE, on.folder, on.connect(), servers_cpu)


def fill(on: Bench, rows: int) -> None:
    """Write rows to the source and ship them to the peer cluster."""
    for client in (on.client, on.peer_cluster):
        client.empty_table(TABLE)
    write_backlog(on, rows)
    with on.log.open("ab") as log:
        code = submit(on.source, MANAGED_PEER, f"fill-{rows}", out=log).wait(TIMEOUT_SECONDS)
    if code:
        raise RuntimeError(f"not shipped: {on.log.read_text()[-4000:]}")


def main() -> None:
    """Start the clusters, warm up, compare, print."""
    with bench() as on:
        sides = sides_of(on, MANAGED_PEER)
        for rows in (max(1000, ROWS // 10), ROWS):
            fill(on, rows)
            tell(f"{rows:,} equal rows", sides)
        plant_differences(on.source, on.peer_cluster, TABLE)
        tell("with differences", sides)


def tell(what: str, on: Sides) -> None:
    """Compare in several rounds after one to warm up, and print each comparison and the medians of the ratios."""
    print(f"\n{what}, {ROUNDS} rounds after one to warm up\n{HEADER}", flush=True)
    in_turn(on, 0)
    print("-" * len(HEADER))
    done = [each for round_ in range(ROUNDS) for each in in_turn(on, round_)]
    print("-" * len(HEADER))
    for by in WAYS:
        cpu = [statistics.median(cpu) for cpu in zip(*((c.job_cpu, c.servers_cpu) for c in of_way(done, by)), strict=True)]
        print(f"{by:{NAME}}{statistics.median(c.seconds for c in of_way(done, by)):9.2f}{cpu[0]:9.2f}{cpu[1]:9.2f}  (medians)")
    for theirs, ours in RATIOS:
        ratios = times_as_fast(done, theirs, ours)
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{ours} beside {theirs}: {statistics.median(ratios):.2f} times as fast ({each})")
    print(f"all count {done[-1].counters}", flush=True)


if __name__ == "__main__":
    main()
