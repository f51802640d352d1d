"""Tries whether the slave takes files at all, before a backlog is read for it: it is of another release, or refuses the user.

A server of HBase 1 does not know PrepareBulkLoad. With AccessController the user needs CREATE or ADMIN on the table, and the file
system may not let the user write, or not be reached from here.
"""

from __future__ import annotations

from walferry.base.errors import WalferryError
from walferry.hbase.files.systems import NewFile
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import RegionUnavailable
from walferry.hbase.tables.tables import Tables
from walferry.load.file_loader import Tries, noted_folder
from walferry.load.records import LoadFolder
from walferry.shipping.bulkload.job import PlannedRegion

PATIENCE_SECONDS = 60.0  # with a region that moves, or a server that restarts


def why_not(note: LoadFolder, slave: Tables, planned: PlannedRegion, source_root: str) -> str | None:
    """Have a folder made for a load into a region, make a file in it, and have it deleted. Returns what went wrong.

    `note` is where the folder is noted. A region that is on its way to another server says nothing about files: it is looked up
    again.
    """
    tries, place = Tries(seconds=PATIENCE_SECONDS), slave.place(planned.table.decode())
    while True:
        try:
            target = place.locate(planned.region.start)
            folder = noted_folder(place, target, slave.login, source_root, note, surely=True)
            with folder as (_, token), NewFile(f"{token}/trial"):
                return None  # empty: HDFS takes half a second to end a file with a block
        except (RpcError, RegionUnavailable) as error:
            if not tries.again(error):
                return str(error)
        except (WalferryError, OSError) as error:
            return str(error)
