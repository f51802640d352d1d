"""Removes the znodes that killed servers leave in ZooKeeper, as HBase's own start script does (ZNodeClearer.java).

So the cluster notices a dead server at once, however long its session lasts. Sessions may then last for minutes, and a cluster
survives if its machine stands still for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from embedded.hbase import ClusterAddress

CONNECT_TIMEOUT_SECONDS = 60
SUPER_PASSWORD = "zookeeper-super"  # next to hbase-site.xml, with the password of a secured ensemble (embedded.secured)
_kazoo_log = logging.getLogger("embedded.kazoo")
_kazoo_log.setLevel(logging.ERROR)  # hides that a server is still starting


def forget_regionserver(address: ClusterAddress, server_name: str) -> None:
    """Remove the znode that shows a killed RegionServer as alive."""
    with zookeeper(address) as zk:
        _delete(zk, f"{address.znode_parent}/rs/{server_name}")


def forget_master(address: ClusterAddress) -> None:
    """Remove the znode that shows a killed master as active."""
    with zookeeper(address) as zk:
        _delete(zk, f"{address.znode_parent}/master")


def forget_servers(address: ClusterAddress, *, created_before: float) -> None:
    """Remove the ephemeral znodes of all servers that are older than `created_before` (seconds since 1970)."""
    with zookeeper(address) as zk:
        parent = address.znode_parent
        folders = (f"{parent}/rs", f"{parent}/backup-masters")
        for path in [f"{parent}/master", *(f"{folder}/{name}" for folder in folders for name in _children(zk, folder))]:
            stat = zk.exists(path)
            if stat is not None and stat.ephemeralOwner and stat.created < created_before:
                _delete(zk, path)


@contextmanager
def zookeeper(address: ClusterAddress) -> Iterator[KazooClient]:
    """Return a client of the cluster's ZooKeeper, which may still be starting."""
    zk = KazooClient(hosts=address.quorum, logger=_kazoo_log)
    password = address.hbase_site.with_name(SUPER_PASSWORD)
    try:
        zk.start(timeout=CONNECT_TIMEOUT_SECONDS)
        if password.exists():
            zk.add_auth("digest", f"super:{password.read_text()}")
        yield zk
    finally:
        zk.stop()
        zk.close()


def _children(zk: KazooClient, path: str) -> list[str]:
    try:
        return list(zk.get_children(path))
    except NoNodeError:
        return []


def _delete(zk: KazooClient, path: str) -> None:
    with suppress(NoNodeError):  # otherwise its session had already ended
        zk.delete(path)
