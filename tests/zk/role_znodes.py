"""A cluster's znodes and files as a run that takes the master's role finds them, and an HMaster next to it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.zk.hbase_znodes import prefixed
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.values import PBUF
from walferry.master.transitions import Transition
from walferry.master.writes import Change

REGION = b"t,,1700000000000.0123456789abcdef0123456789abcdef."
SERVER = ServerName("rs1.example.org", 16020, 1_700_000_000_001)
HMASTER = ServerName("m1.example.org", 16000, 1_700_000_000_000)
ID = uuid.UUID("6a5a8b2e-64b5-4f1c-9a53-1e5bd1f0c0de")


@pytest.fixture
def nodes() -> ZNodes:
    return ZNodes(f"/hbase-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def own(nodes: ZNodes) -> OwnZNodes:
    return OwnZNodes(f"/walferry{nodes.base[6:]}", nodes)


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "hbase.id").write_bytes(PBUF + pb.ClusterId(cluster_id=str(ID)).SerializeToString())
    return f"file://{tmp_path}"


def become_active(zk: KazooClient, nodes: ZNodes) -> None:
    """Write an active HMaster's znode."""
    name = pb.ServerName(host_name=HMASTER.host, port=HMASTER.port, start_code=HMASTER.start_code)
    zk.ensure_path(nodes.base)
    zk.create(nodes.master, prefixed(PBUF + pb.Master(master=name).SerializeToString()), ephemeral=True)


def create_region() -> Change:
    return Change(Transition.CREATE_OFFLINE, REGION, None, SERVER)
