"""An initial snapshot by the Spark job between clusters on HDFS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from embedded.client import GLOBAL, even_splits
from embedded.spark import submit_copy
from tests.cluster.spark_runs import Job
from tests.cluster.walferry_runs import ship, source_of
from walferry.hbase.files.systems import list_entries

REGIONS = 4
FAMILIES = ("f", "g", "L#0")  # as Phoenix calls its local indexes


def test_files_are_copied_and_loaded_from_one_hdfs_folder_to_another(
    distributed_pair, java_client, managed_peer, unique: Callable[[str], str], tmp_path: Path
) -> None:
    source, peer_cluster = (java_client(cluster.address) for cluster in distributed_pair)
    peer = managed_peer(distributed_pair.source.address, distributed_pair.peer_cluster.address)
    at, table = source_of(distributed_pair.source.address), unique("t")
    source.create_table(table, dict.fromkeys(FAMILIES, GLOBAL), even_splits(REGIONS))
    for first in (0, 1000):  # so that a region has several files
        source.put_many(table, 1000, ["f:a", "g:b", "L#0:c"], first=first)
        source.flush(table)
    with Job(at, peer, "run", tmp_path, submit_copy, tables=(table,)) as job:
        ended = job.finish()
    assert ended.code == 0, ended.output
    assert '"by_scan": []' in ended.output
    assert source.compare(table, peer_cluster, raw=True).same
    staging = f"{distributed_pair.peer_cluster.address.wal_root}/staging"
    assert not [left for left in list_entries(staging) if f"__{table}__" in left.name]
    source.put_many(table, 100, ["f:a", "L#0:c"], first=5000)
    assert all(not summary.failed for summary in ship(at, peer))
    assert source.compare(table, peer_cluster, raw=True).same
