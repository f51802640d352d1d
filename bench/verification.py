"""Equal tables, and then tables with differences, compared by HBase's VerifyReplication and by Walferry in turn.

    PYTHONPATH=plugins python -m bench.verification      WALFERRY_BENCH_ROWS (1000000), WALFERRY_BENCH_ROUNDS (3)

HBase's job runs under MapReduce's local runner, with a map a core at a time and 2000 rows a call. It is timed twice:

    own JVM     from the start of the JVM that `hbase org.apache…VerifyReplication` starts, to its end
    warm        in a JVM that has run the job before, from when it is asked for until its counters are there

Walferry's job is timed from the start of spark-submit to its end, and from when Spark has started until the outcome is there. So
there are two ratios: from process start to end, and without start-up. The latter still has the start of Spark's workers in it.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from bench.clusters import MANAGED_PEER, TABLE, TIMEOUT_SECONDS, Bench, bench
from bench.replication import write_backlog
from embedded.client import JavaClient
from embedded.spark import submit, submit_job
from embedded.verify_replication import counters_of, start_verify_replication
from embedded.wire import delete_row, put
from walferry.base.zk.client import connected
from walferry.hbase.layout import ZNodes
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.replication.source.cluster import SourceCluster
from walferry.verification.verify_run import VerifyRun

ROWS = int(os.environ.get("WALFERRY_BENCH_ROWS", "1000000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3"))
KINDS = ("ONLY_IN_SOURCE_TABLE_ROWS", "ONLY_IN_PEER_TABLE_ROWS", "CONTENT_DIFFERENT_ROWS")


@dataclass(frozen=True)
class Timed:
    """The counters of both, which are equal, and their seconds."""

    counters: dict[str, int]
    hbase: float  # in a JVM of its own
    warm_hbase: float
    walferry: float
    comparing: float  # Walferry's seconds once Spark has started

    @property
    def ratio(self) -> float:
        """How many times as fast Walferry was, from process start to end."""
        return self.hbase / self.walferry

    @property
    def started_ratio(self) -> float:
        """How many times as fast Walferry was after both had started."""
        return self.warm_hbase / self.comparing

    def __str__(self) -> str:
        hbase = f"HBase {self.hbase:.1f} s in its own JVM, {self.warm_hbase:.1f} s warm"
        walferry = f"Walferry {self.walferry:.1f} s, {self.comparing:.1f} s of these after Spark's start"
        ratios = f"{self.ratio:.2f} times as fast from process start to end, {self.started_ratio:.2f} times without start-up"
        return f"{hbase}; {walferry}: {ratios}"


def in_turn(client: JavaClient, source: SourceCluster, peer: str, table: str, log: Path, *, cores: int = 4) -> Timed:
    """Compare a table both ways, HBase's twice, and check that they agree."""
    began = time.monotonic()
    job = start_verify_replication(client.address, peer, table, ["f"], log.parent / "verify", maps=cores)
    hbase = counters_of(job, TIMEOUT_SECONDS)
    hbase_seconds = time.monotonic() - began
    began = time.monotonic()
    warm = client.verify_replication(table, peer, ["f"])
    warm_seconds = time.monotonic() - began
    run = VerifyRun(source=source, peer_id=peer, run_id="bench", tables=(table,))
    began = time.monotonic()
    with log.open("wb") as out:
        code = submit_job(run, out=out, cores=cores).wait(TIMEOUT_SECONDS)
    walferry_seconds = time.monotonic() - began
    if code:
        raise RuntimeError(f"the Spark job ended with code {code}:\n{log.read_text()[-4000:]}")
    text = log.read_text()
    (outcome,) = json.loads(text.splitlines()[-1])
    (comparing,) = re.findall(r"([0-9.]+) s to compare", text)
    ours = {"GOODROWS": outcome["good"], "BADROWS": sum(outcome["bad"].values()), **outcome["bad"]}
    for counters in (hbase, warm):
        theirs = {name: counters.get(name, 0) for name in ours}
        if ours != theirs:
            raise RuntimeError(f"Walferry counts {ours}, HBase {theirs}")
    return Timed(ours, hbase_seconds, warm_seconds, walferry_seconds, float(comparing))


def plant_differences(source: SourceCluster, peer_cluster: JavaClient, table: str) -> None:
    """Make a few rows of the peer cluster missing, extra and different, all over the table."""
    with connected(source.quorum) as zk, Tables(zk, ZNodes(source.znode_parent)) as tables:
        keys = [block.key(0) for block in tables.scan(table, ScanSpec())]
    peer_cluster.write(table, [delete_row(key) for key in keys[1::3]])
    peer_cluster.write(table, [put(key + b"x", {"f:a": b"extra"}) for key in keys[2::3]])
    peer_cluster.write(table, [put(key, {"f:a": b"different"}) for key in keys[3::3]])


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
        for rows in (max(1000, ROWS // 10), ROWS):
            fill(on, rows)
            in_turn(on.client, on.source, MANAGED_PEER, TABLE, on.log)  # a cold cache is nobody's fault
            tell(f"{rows:,} equal rows", on)
        plant_differences(on.source, on.peer_cluster, TABLE)
        tell("with differences", on)


def tell(what: str, on: Bench) -> None:
    """Compare in several rounds, and print each of them and the medians of their ratios."""
    print(f"{what}, {ROUNDS} rounds", flush=True)
    rounds = []
    for _ in range(ROUNDS):
        rounds.append(in_turn(on.client, on.source, MANAGED_PEER, TABLE, on.log))
        print(f"  {rounds[-1]}", flush=True)
    medians = [statistics.median(ratios) for ratios in ([r.ratio for r in rounds], [r.started_ratio for r in rounds])]
    print(f"  medians: {medians[0]:.2f} times as fast, {medians[1]:.2f} times without start-up")
    print(f"  both count {rounds[-1].counters}", flush=True)


if __name__ == "__main__":
    main()
