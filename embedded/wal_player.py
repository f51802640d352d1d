"""Runs HBase's WALPlayer in a JVM of its own, like the operator's command `hbase org.apache…WALPlayer`, on WALs in place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from embedded.hbase import ClusterAddress
from embedded.processes import JavaProcess, start_java

MAIN = "walferry.embedded.WalReplay"
SEPARATOR = ";"  # the names of servers, and so of their folders, contain commas


def start_wal_player(
    source: ClusterAddress, peer_cluster: ClusterAddress, wals: Sequence[str], table: str, folder: Path, *,
    hfiles: str | None = None,
    tasks: int, classpath: Sequence[Path] = (),
) -> JavaProcess:  # fmt: skip
    """Start WALPlayer under MapReduce's local runner, with up to `tasks` maps or reduces at once. `wals` are URLs.

    It puts the edits into the peer cluster's table. With `hfiles`, the URL of a folder that does not exist, it writes HFiles
    there, which BulkLoadHFilesTool then loads, in the same JVM. `classpath` contains the jars that the WALs need in addition to
    HBase.
    """
    settings = {
        "mapreduce.framework.name": "local",
        "mapreduce.local.map.tasks.maximum": str(tasks),
        "mapreduce.local.reduce.tasks.maximum": str(tasks),
        "mapreduce.map.speculative": "false",
        "mapreduce.reduce.speculative": "false",
        "mapreduce.jobtracker.staging.root.dir": str(folder / "staging"),
        "hadoop.tmp.dir": str(folder / "tmp"),
        "wal.input.separator": SEPARATOR,
        "hbase.wal.dir": source.wal_root,  # WALPlayer looks for WALs that have been archived meanwhile there
        **({"wal.bulk.output": hfiles} if hfiles else {}),
    }
    args = [*(f"-D{name}={value}" for name, value in settings.items()), SEPARATOR.join(wals), table]
    return start_java(
        "wal-player", MAIN, args, folder=folder, classpath=[peer_cluster.hbase_site.parent, *classpath], heap="2g"
    )  # fmt: skip
