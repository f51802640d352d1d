"""A table's initial snapshot by HBase's ExportSnapshot, by its CopyTable and by Walferry in turn, on the same clusters.

    PYTHONPATH=plugins python -m bench.initial_snapshot         WALFERRY_BENCH_ROWS (1000000), WALFERRY_BENCH_ROUNDS (3)

The table lies in several files. ExportSnapshot and CopyTable run in a JVM that is up already. The time of ExportSnapshot includes
the snapshot and the clone. CopyTable's target is made before. Walferry's time is that of the whole Spark job from its start on,
which makes the table at the peer cluster too.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

from bench.clusters import COLUMNS, MANAGED_PEER, REGIONS, TABLE, VALUE_BYTES, Bench, bench, region_servers_cpu
from embedded.client import GLOBAL, even_splits
from embedded.spark import submit_copy

ROWS = int(os.environ.get("WALFERRY_BENCH_ROWS", "1000000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3"))
FILES_A_REGION = 4
CORES = 4


def by_export_snapshot(on: Bench, round_: int) -> None:
    """A snapshot, ExportSnapshot, and a clone at the peer cluster."""
    on.client.export_snapshot(TABLE, on.peer_cluster, f"bench-{round_}")


def by_copy_table(on: Bench, round_: int) -> None:
    """CopyTable into an empty table."""
    on.client.copy_table(TABLE, on.peer_hbase.address.cluster_key)


def by_walferry(on: Bench, round_: int) -> None:
    """The Spark job."""
    with on.log.open("ab") as log:
        code = submit_copy(on.source, MANAGED_PEER, f"bench-{round_}", out=log, cores=CORES, tables=(TABLE,)).wait()
    if code:
        raise RuntimeError(f"the Spark job ended with code {code}:\n{on.log.read_text()[-4000:]}")


WAYS: dict[str, Callable[[Bench, int], None]] = {
    "ExportSnapshot": by_export_snapshot, "CopyTable": by_copy_table, "Walferry": by_walferry
}  # fmt: skip


def measured(on: Bench, way: str, round_: int) -> float:
    """Copy in one way into a peer cluster without the table. Prints and returns the seconds."""
    on.peer_cluster.drop_table(TABLE)
    if way == "CopyTable":
        on.peer_cluster.create_table(TABLE, {"f": GLOBAL}, even_splits(REGIONS))
    cpu, began = region_servers_cpu(on.peer_hbase), time.monotonic()
    WAYS[way](on, round_)
    seconds = time.monotonic() - began
    cpu = region_servers_cpu(on.peer_hbase) - cpu
    compared = on.client.compare(TABLE, on.peer_cluster)
    if not compared.same:
        raise RuntimeError(f"{way}: {compared.different} cells differ: {compared.examples}")
    print(f"{way:15} {seconds:8.1f} s   {cpu:8.1f} CPU-seconds of the peer cluster's RegionServers", flush=True)
    return seconds


def main() -> None:
    """Start the clusters, write the table, copy it in turns, print."""
    with bench() as on:
        for part in range(FILES_A_REGION):
            rows = ROWS // FILES_A_REGION
            on.client.put_many(TABLE, rows, COLUMNS, first=part * rows, value_bytes=VALUE_BYTES)
            on.client.flush(TABLE)
        print(f"{ROUNDS} rounds of {ROWS:,} rows, {len(COLUMNS)} cells of {VALUE_BYTES} bytes each, in {REGIONS} regions")
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for round_ in range(ROUNDS):
            order = list(WAYS)[round_ % len(WAYS) :] + list(WAYS)[: round_ % len(WAYS)]
            for way in order:
                seconds[way].append(measured(on, way, round_))
        for way, all_ in seconds.items():
            print(f"{way}: {statistics.median(all_):.1f} s (median)")


if __name__ == "__main__":
    main()
