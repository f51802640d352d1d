"""The failure of RegionServers: their WALs are split; the loop does the rest, region by region.

A dead server is one that has a folder of WALs and no session. Each region that it served, or was opening or closing, waits in
`decide` until the folder is gone. So a failure needs no list of regions, and a master that finds half of one goes on with it.
"""

from __future__ import annotations

from kazoo.client import KazooClient

from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.master.registry import ServerRegistry
from walferry.master.wal_splitting import SplitProgress, WalSplitting, servers_with_wals


def dead_servers(zk: KazooClient, nodes: ZNodes, wal_root: str) -> frozenset[ServerName]:
    """List the servers whose WALs have to be split. Raises StoreError, ClusterError, ConnectError.

    The live servers are read after the folders: a server that starts in between is not taken for dead.
    """
    with_wals = servers_with_wals(wal_root)
    return with_wals - live_servers(zk, nodes)


def recover(
    zk: KazooClient, nodes: ZNodes, wal_root: str, registry: ServerRegistry, splitting: WalSplitting
) -> list[SplitProgress]:
    """Take the next steps for the WALs of all dead servers. Raises the role's errors, StoreError, ConnectError.

    A server that only lost its session hears at its next report that it is dead, before its WALs are touched.
    """
    dead = dead_servers(zk, nodes, wal_root)
    for server in dead:
        registry.give_up(server)
    return splitting.advance(dead)
