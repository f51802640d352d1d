"""Deletes the folders of loads of backlogs at the slave, by the notes in their records: at the end of each load, or what a killed
one has left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from walferry.hbase.rpc import bulk_load
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.tables import Tables
from walferry.load.errors import StaleLoad
from walferry.load.records import Folder, Load, end, folders_of, forget, note_folder
from walferry.load.staging import PATIENCE_SECONDS, delete_surely, new_folder
from walferry.replication.source.cluster import SourceCluster

log = logging.getLogger(__name__)


@contextmanager
def noted_folder(
    zk: KazooClient, record: str, slave: Tables, table: str, target: Region, source: SourceCluster, *, surely: bool = False
) -> Iterator[tuple[Connection, str, str]]:
    """Have a folder made for a load into `target`, note it with the load's record, and have it deleted after the block.

    Yields the connection to the region's server, the folder's URL and the note. If the slave does not delete the folder, the note
    stays, for the job's end to look after; with `surely` that is an error. Raises NotLoaded, LoadOvertaken, RpcError.
    """
    server = slave.place(table).connection(target)
    token, note = new_folder(
        server, table, target.name, source.hbase_root, slave.login,
        lambda token: note_folder(zk, record, Folder(token, table, target.name.hex())),
    )  # fmt: skip
    try:
        yield server, token, note
    finally:
        try:
            bulk_load.cleanup(server, target.name, token)
            forget(zk, note)
        except RpcError as error:
            if surely:
                raise
            log.warning("%s is left behind at the slave for now: %s", token, error)


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
