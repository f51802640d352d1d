"""Tries whether the slave takes files at all, before a backlog is read for it: it is of another release, or refuses the user.

A server of HBase 1 does not know PrepareBulkLoad. With AccessController the user needs CREATE or ADMIN on the table, and the file
system may not let the user write, or not be reached from here.
"""

from __future__ import annotations

from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.hbase.files.systems import NewFile
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import RegionUnavailable
from walferry.hbase.tables.scan import Patience
from walferry.hbase.tables.tables import Tables
from walferry.load.cleanup import noted_folder
from walferry.load.errors import is_refusal
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.bulkload.job import PlannedRegion

PATIENCE_SECONDS = 60.0  # with a region that moves, or a server that restarts


def why_not(zk: KazooClient, record: str, slave: Tables, planned: PlannedRegion, source: SourceCluster) -> str | None:
    """Have a folder made for a load into a region, make a file in it, and have it deleted. Returns what went wrong.

    `record` is that of the load, where the folder is noted, and `zk` the source's ZooKeeper. A region that is on its way to
    another server says nothing about files: it is looked up again.
    """
    patience = Patience(PATIENCE_SECONDS)
    while True:
        try:
            return _try(zk, record, slave, planned, source)
        except (RpcError, RegionUnavailable) as error:
            if is_refusal(error) or not error.retry_helps or not patience.wait():
                return str(error)
        except (WalferryError, OSError) as error:
            return str(error)


def _try(zk: KazooClient, record: str, slave: Tables, planned: PlannedRegion, source: SourceCluster) -> str | None:
    table = planned.table.decode()
    target = slave.place(table).locate(planned.region.start)
    with noted_folder(zk, record, slave, table, target, source, surely=True) as (_, token, _), NewFile(f"{token}/trial"):
        pass  # empty: HDFS takes half a second to end a file with a block
    return None
