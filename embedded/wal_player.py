"""HBase's WALPlayer in a JVM of its own, as an operator starts it, on WALs where they lie: `hbase org.apache…WALPlayer`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from embedded.hbase import ClusterAddress
from embedded.processes import JavaProcess, start_java

MAIN = "walferry.embedded.WalReplay"
SEPARATOR = ";"  # the names of servers, and so of their folders, have commas


def start_wal_player(
    source: ClusterAddress, slave: ClusterAddress, wals: Sequence[str], table: str, folder: Path, *, hfiles: str | None = None,
    tasks: int, classpath: Sequence[Path] = (),
) -> JavaProcess:  # fmt: skip
    """Start it under MapReduce's local runner, with up to `tasks` maps or reduces at once. `wals` are URLs.

    It puts what it reads into the slave's table. With `hfiles`, the URL of a folder that does not exist, it writes HFiles there,
    which BulkLoadHFilesTool then loads, in the same JVM. `classpath` is what the WALs need besides HBase.
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
        "hbase.wal.dir": source.wal_root,  # a WAL that has been archived meanwhile is looked for there
        **({"wal.bulk.output": hfiles} if hfiles else {}),
    }
    args = [*(f"-D{name}={value}" for name, value in settings.items()), SEPARATOR.join(wals), table]
    return start_java(
        "wal-player", MAIN, args, folder=folder, classpath=[slave.hbase_site.parent, *classpath], heap="2g"
    )  # fmt: skip
