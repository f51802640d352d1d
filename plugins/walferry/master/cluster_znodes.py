"""Creates the znodes that RegionServers and clients expect before they start, as an HMaster does when it becomes active.

    <base>/<folders>    the parents of HBase's znodes
    <base>/hbaseid      "PBUF" ClusterId, the same as in the file <root folder>/hbase.id
    <base>/running      "PBUF" ClusterUp, last: RegionServers wait for it

Existing znodes stay as they are. A running cluster has them all; they are missing after ZooKeeper has lost its data.

Source: HBase's ZooKeeperWatcher.createBaseZNodes, HMaster.finishActiveMasterInitialization, ClusterStatusTracker (branch-1.4).
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NodeExistsError

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.acls import readable_by_all
from walferry.base.zk.client import expected, read, read_all, retried
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.files.systems import open_wal
from walferry.hbase.layout import ZNodes
from walferry.hbase.values import PBUF, decode_cluster_id
from walferry.master.errors import NoClusterId, WrongFiles

_FOLDERS = (
    "region-in-transition",
    "rs",
    "draining",
    "table",
    "splitWAL",
    "backup-masters",
    "table-lock",
    "recovering-regions",
    "master-maintenance",
)
_MAX_ID_BYTES = 1024


def create_missing(zk: KazooClient, nodes: ZNodes, lock: FencedLock, root_dir: str) -> list[str]:
    """Create the missing znodes and return their paths. `root_dir` is the URL of hbase.rootdir, read only if the id is missing.

    Raises NoClusterId, StoreError, the role's errors, ConnectError.
    """
    retried(zk, zk.ensure_path, nodes.base, acl=readable_by_all(zk))
    paths = [*(f"{nodes.base}/{name}" for name in _FOLDERS), nodes.hbaseid, nodes.running]
    missing = [path for path, found in zip(paths, read_all(zk, paths), strict=True) if found is None]
    for path in missing:
        value = b""
        if path == nodes.hbaseid:
            value = PBUF + pb.ClusterId(cluster_id=str(_id_in_files(root_dir))).SerializeToString()
        elif path == nodes.running:
            value = PBUF + pb.ClusterUp(start_date=f"{datetime.now(UTC):%a %b %d %H:%M:%S UTC %Y}").SerializeToString()

        def create(multi: TransactionRequest, path: str = path, value: bytes = value) -> None:
            multi.create(path, value, acl=readable_by_all(zk) if nodes.clients_read(path) else None)

        expected(lock.write(create).refusal, NodeExistsError)  # a RegionServer creates some of them too
    return missing


def check_files(zk: KazooClient, nodes: ZNodes, wal_root: str) -> None:
    """Check that the WALs are this cluster's, as far as their root and ZooKeeper contain its id. Raises WrongFiles, StoreError.

    Another cluster's servers have no session in this ZooKeeper, so they would be taken for dead, and cut off from their WALs.
    """
    found = read(zk, nodes.hbaseid)
    if found is None:
        return
    expected = decode_cluster_id(found.value, nodes.hbaseid)
    try:
        other = _id_in_files(wal_root)
    except NoClusterId:  # hbase.wal.dir contains no id, only hbase.rootdir does
        return
    if other != expected:
        raise WrongFiles(_id_file(wal_root), str(other), nodes.hbaseid, str(expected))


def _id_file(root_dir: str) -> str:
    return f"{root_dir.rstrip('/')}/hbase.id"


def _id_in_files(root_dir: str) -> uuid.UUID:
    url = _id_file(root_dir)
    try:
        with open_wal(url) as file:
            value = file.read_at(0, min(file.size, _MAX_ID_BYTES))
        return decode_cluster_id(value, url)
    except FileNotFoundError:
        raise NoClusterId(url, "there is no such file") from None
    except ZNodeValueError as error:
        raise NoClusterId(url, error.reason) from error
