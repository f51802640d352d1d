"""HBase 3's table of replication queues on a cluster of HBase 2, and what HBase 3 itself does with it.

The servers of HBase 2 queue their WALs in ZooKeeper beside it, which also keeps the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.cluster import master as active_master
from walferry.hbase.layout import QueueLayout
from walferry.hbase.names import QueueId
from walferry.hbase.queue_table import HFILE_REF_FAMILY, QUEUE_FAMILY, QUEUE_TABLE, queue_row
from walferry.hbase.rpc import master
from walferry.hbase.tables.mutations import cell_is, deletion_of, mutate, put_of
from walferry.hbase.tables.tables import Tables
from walferry.replication.queues.in_table import QueueRow, read_rows
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session

# As ReplicationStorageFactory.createReplicationQueueTableDescriptor (branch-3.0) makes it.
_ATTRIBUTES = {
    "coprocessor$1": "|org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint|536870911|",
    "hbase.regionserver.region.split_restriction.type": "DelimitedKeyPrefix",
    "hbase.regionserver.region.split_restriction.delimiter": "-",
}
_FAMILIES = ("queue", "sid", "hfileref")


def of_hbase_3(source: SourceCluster) -> SourceCluster:
    """Return the source with its queues in the table."""
    return replace(source, queue_layout=QueueLayout.TABLE)


@dataclass(frozen=True)
class QueueTable:
    """The table, as HBase 3's Master and servers use it."""

    tables: Tables

    def rows(self, peer_id: str) -> dict[str, Mapping[str, bytes]]:
        """Return the offsets of the peer's queues, by row."""
        return {row.row: row.offsets for row in self.queues(peer_id)}

    def queues(self, peer_id: str) -> list[QueueRow]:
        return read_rows(self.tables, peer_id)

    def set_offset(self, row: str, group: str, value: str) -> None:
        """Do as TableReplicationQueueStorage.setOffset, which does not look at the old value."""
        mutate(self.tables, QUEUE_TABLE, [put_of(row.encode(), QUEUE_FAMILY, {group.encode(): value.encode()})])

    def keep_hfiles(self, peer_id: str, names: list[str]) -> None:
        """Do as TableReplicationQueueStorage.addHFileRefs."""
        put = put_of(peer_id.encode(), HFILE_REF_FAMILY, {name.encode(): b"" for name in names})
        mutate(self.tables, QUEUE_TABLE, [put])

    def claim(self, queue: QueueRow, to: str) -> str:
        """Do as TableReplicationQueueStorage.claimQueue. Returns the new row."""
        new, old = queue_row(to, QueueId(queue.id.peer_id, (queue.server,))), queue.row.encode()
        put = put_of(new.encode(), QUEUE_FAMILY, {group.encode(): value for group, value in queue.offsets.items()})
        group, value = next(iter(queue.offsets.items()))
        seen = cell_is(old, QUEUE_FAMILY, group.encode(), value)
        assert mutate(self.tables, QUEUE_TABLE, [deletion_of(old, QUEUE_FAMILY), put], [seen])
        return new


@contextmanager
def queue_table(source: SourceCluster) -> Iterator[QueueTable]:
    """Create the table if it is not there, and connect to it."""
    schema = pb.TableSchema(table_name=pb.TableName(namespace=b"hbase", qualifier=b"replication"))
    for name, value in _ATTRIBUTES.items():
        schema.attributes.add(first=name.encode(), second=value.encode())
    for family in _FAMILIES:
        schema.column_families.add(name=family.encode())
    with open_session(source) as session:
        with master.connect(active_master(session.zk, session.nodes)) as connection:
            master.create_table(connection, schema, [])
        with Tables(session.zk, session.nodes) as tables:
            yield QueueTable(tables)
