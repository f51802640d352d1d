"""Deletes the folders of loads of backlogs at the slave, by the notes in their records: at the end of each load, or what a killed
one has left.
"""

from __future__ import annotations

from kazoo.client import KazooClient

from walferry.hbase.tables.tables import Tables
from walferry.load.errors import StaleLoad
from walferry.load.records import Folder, Load, end, folders_of, forget
from walferry.load.staging import PATIENCE_SECONDS, delete_surely
from walferry.replication.source.cluster import SourceCluster


def clean(load: Load, zk: KazooClient, slave: Tables, source: SourceCluster) -> None:
    """End a load, have the folders deleted that its job has left, and forget it unless it is done. Raises StaleLoad."""
    if not load.done:
        end(zk, load.path)
    clean_folders(load.path, zk, slave, source)
    if not load.done:
        forget(zk, load.path)


def clean_folders(record: str, zk: KazooClient, slave: Tables, source: SourceCluster) -> None:
    """Have the folders deleted that the tasks of a load have left, which has ended. Raises StaleLoad."""
    for note, folder in folders_of(zk, record).items():
        problem = "not even as text" if folder is None else _clean_folder(folder, slave, source)
        if problem:
            raise StaleLoad(
                f"{note} names no folder that a load can have left at the slave: {problem}",
                "Walferry has not written this znode. Nothing is shipped until it is deleted by hand",
            )
        forget(zk, note)


def _clean_folder(folder: Folder, slave: Tables, source: SourceCluster) -> str | None:
    """Returns why the folder is none of a load's. Raises StaleLoad."""
    return delete_surely(slave.place(folder.table), folder.token, folder.region, source.hbase_root, PATIENCE_SECONDS)
