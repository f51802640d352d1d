"""Changes peers through the Master's own calls, as HBase's shell does."""

from __future__ import annotations

from collections.abc import Callable

from embedded.hbase import ClusterAddress
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import connected
from walferry.hbase.cluster import master as active_master
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc import master


def table_of(name: str, *families: str) -> pb.TableCF:
    """Return a table, or some of its families, in the form that peers use."""
    namespace, _, qualifier = name.rpartition(":")
    families_ = [family.encode() for family in families]
    return pb.TableCF(
        table_name=pb.TableName(namespace=(namespace or "default").encode(), qualifier=qualifier.encode()), families=families_
    )


def reconfigure(source: ClusterAddress, peer: str, change: Callable[[pb.ReplicationPeer], None]) -> None:
    """Have the source's Master change the configuration of a peer."""
    with connected(source.quorum) as zk, master.connect(active_master(zk, ZNodes(source.znode_parent))) as connection:
        config = master.get_peer(connection, peer)
        change(config)
        master.update_peer_config(connection, peer, config)


def only(*tables: pb.TableCF, namespaces: tuple[str, ...] = ()) -> Callable[[pb.ReplicationPeer], None]:
    """Return a change that sets exactly these tables and namespaces."""

    def change(config: pb.ReplicationPeer) -> None:
        config.replicate_all = False
        del config.table_cfs[:], config.namespaces[:]
        config.table_cfs.extend(tables)
        config.namespaces.extend(name.encode() for name in namespaces)

    return change
