"""Runs HBase's VerifyReplication in a JVM of its own, like the operator's command `hbase org.apache…VerifyReplication`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from embedded.hbase import ClusterAddress
from embedded.processes import ClusterError, JavaProcess, start_java

MAIN = "org.apache.hadoop.hbase.mapreduce.replication.VerifyReplication"
ROWS_A_CALL = 2000  # with HBase's default, 1 row in each call, the job takes minutes


def start_verify_replication(
    address: ClusterAddress, peer: str, table: str, families: Sequence[str], folder: Path, *, maps: int
) -> JavaProcess:
    """Start the job under MapReduce's local runner, with up to `maps` maps at once (its default is one after the other)."""
    settings = {
        "mapreduce.framework.name": "local",
        "mapreduce.local.map.tasks.maximum": str(maps),
        "mapreduce.map.speculative": "false",
        "mapreduce.jobtracker.staging.root.dir": str(folder / "staging"),
        "hadoop.tmp.dir": str(folder / "tmp"),
        "hbase.mapreduce.scan.cachedrows": str(ROWS_A_CALL),
    }
    args = [*(f"-D{name}={value}" for name, value in settings.items()), f"--families={','.join(families)}", peer, table]
    return start_java("verify", MAIN, args, folder=folder, classpath=[address.hbase_site.parent], heap="2g")


def counters_of(job: JavaProcess, timeout: float) -> dict[str, int]:
    """Wait for the job's end, and return the counters that it printed, such as GOODROWS. Raises ClusterError if it failed."""
    try:
        code = job.popen.wait(timeout)
    finally:
        job.kill()
    if code:
        raise ClusterError(f"VerifyReplication ended with code {code}", job.tail())
    return {name: int(count) for name, count in re.findall(r"^\s+([A-Z_]+ROWS)=(\d+)$", job.log_text(), re.MULTILINE)}
