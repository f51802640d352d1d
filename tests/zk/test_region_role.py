"""The master's role beside HMasters: it is refused while one is active, keeps others out, and is lost with its znode."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
from kazoo.client import KazooClient

from tests.zk.hbase_znodes import expire, prefixed
from walferry.hbase.cluster import cluster_id, live_servers, master
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.values import PBUF
from walferry.names import ServerName
from walferry.protos import hbase_pb2 as pb
from walferry.regions import acting
from walferry.regions.acting import Candidate, acting_as_master
from walferry.regions.errors import ClockAhead, LiveMaster, NoClusterId, RoleHeld, RoleLost
from walferry.regions.master_calls import SERVICE
from walferry.regions.role import publish, take_role
from walferry.regions.transitions import Transition
from walferry.regions.writes import Change
from walferry.rpc.connection import Connection
from walferry.rpc.errors import ServerNotReady
from walferry.security.login import Login

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
    """What an HMaster writes."""
    name = pb.ServerName(host_name=HMASTER.host, port=HMASTER.port, start_code=HMASTER.start_code)
    zk.ensure_path(nodes.base)
    zk.create(nodes.master, prefixed(PBUF + pb.Master(master=name).SerializeToString()), ephemeral=True)


def create_region() -> Change:
    return Change(Transition.CREATE_OFFLINE, REGION, None, SERVER)


def test_the_role_comes_with_a_znode_that_names_us_and_with_what_servers_wait_for(zk, nodes, own, root):
    with acting_as_master(zk, nodes, own, Candidate("a run", root)) as role:
        assert master(zk, nodes) == role.me
        assert cluster_id(zk, nodes) == ID
        assert live_servers(zk, nodes) == frozenset()
        value, _ = zk.get(nodes.running)
        assert pb.ClusterUp.FromString(value[4:]).start_date
        assert role.writes.write(create_region()) is not None
        up = zk.exists(nodes.running)
    assert not zk.exists(nodes.master)
    with acting_as_master(zk, nodes, own, Candidate("a run", "file:///does-not-matter-any-more")):
        assert zk.exists(nodes.running).mzxid == up.mzxid, "what is there is not changed"


def test_publishing_twice_is_publishing_once(zk, nodes, own):
    hold = take_role(zk, nodes, own, "a run")
    publish(zk, nodes, hold, SERVER)
    first = zk.exists(nodes.master)
    publish(zk, nodes, hold, SERVER)
    assert zk.exists(nodes.master).czxid == first.czxid


def test_the_role_is_refused_while_an_hmaster_is_active(zk, new_client, nodes, own, root):
    hmaster = new_client()
    become_active(hmaster, nodes)
    refused = pytest.raises(LiveMaster, match=r"HMaster m1\.example\.org,16000,1700000000000 is active")
    with refused, acting_as_master(zk, nodes, own, Candidate("a run", root)):
        pass
    assert not zk.exists(own.root), "nothing was written"
    expire(hmaster)
    with acting_as_master(zk, nodes, own, Candidate("a run", root)):
        pass


def test_an_hmaster_that_becomes_active_in_between_is_not_put_out(zk, new_client, nodes, own):
    hold = take_role(zk, nodes, own, "a run")
    become_active(new_client(), nodes)
    with pytest.raises(LiveMaster):
        publish(zk, nodes, hold, SERVER)


def test_another_run_is_refused(zk, new_client, nodes, own, root):
    with acting_as_master(zk, nodes, own, Candidate("the first", root)):
        refused = pytest.raises(RoleHeld, match="the first acts as the cluster's master")
        with refused, acting_as_master(new_client(), nodes, own, Candidate("the second", root)):
            pass


def test_a_killed_attempt_is_replaced_though_its_session_lives_on(zk, new_client, nodes, own, root):
    first = acting_as_master(new_client(), nodes, own, Candidate("attempt 1", root, run="run"))
    killed = first.__enter__()
    with acting_as_master(zk, nodes, own, Candidate("attempt 2", root, run="run")) as role:
        assert master(zk, nodes) == role.me != killed.me
        with pytest.raises(RoleLost):
            killed.writes.write(create_region())
        first.__exit__(None, None, None)
        assert master(zk, nodes) == role.me, "the end of the first does not take the znode of the second"
        assert role.writes.write(create_region()) is not None


@pytest.mark.parametrize("active", [False, True])
def test_the_role_is_lost_with_its_znode(zk, new_client, nodes, own, root, active):
    with acting_as_master(zk, nodes, own, Candidate("a run", root)) as role:
        new_client().delete(nodes.master)
        if active:
            become_active(new_client(), nodes)
        with pytest.raises(RoleLost, match="master is gone or is another master's"):
            role.writes.write(create_region())
    assert bool(zk.exists(nodes.master)) == active, "the HMaster's znode stays"
    assert not zk.exists(nodes.region_in_transition("0123456789abcdef0123456789abcdef"))


def test_servers_are_told_to_look_for_their_master_once_the_session_has_ended(new_client, nodes, own, root):
    zk: KazooClient = new_client()
    with acting_as_master(zk, nodes, own, Candidate("a run", root)) as role:
        name = pb.ServerName(host_name=SERVER.host, port=SERVER.port, start_code=SERVER.start_code)
        with Connection(role.me.host, role.me.port, SERVICE, login=Login(user="hbase")) as connection:

            def report() -> None:
                request = pb.RegionServerReportRequest(server=name)
                connection.call("RegionServerReport", request, pb.RegionServerReportResponse)

            report()
            expire(zk)
            assert role.hold.lost.wait(10)
            with pytest.raises(ServerNotReady):
                report()


def test_a_run_with_another_root_of_its_own_is_not_put_out(zk, new_client, nodes, own, root):
    with acting_as_master(zk, nodes, own, Candidate("a run", root, "the same")) as role:
        elsewhere = OwnZNodes(f"/elsewhere{nodes.base[6:]}", nodes)
        refused = pytest.raises(RoleHeld, match="a run whose connection has another walferry_root")
        with refused, acting_as_master(new_client(), nodes, elsewhere, Candidate("a run", root, "the same")):
            pass
        role.writes.write(create_region())


def test_a_clock_that_is_ahead_of_zookeeper_is_refused(zk, nodes, own, root, monkeypatch):
    """Else opens would be taken from servers that have just begun, and hbase:meta would hide what an HMaster does later."""
    ahead = time.time() + 3600
    monkeypatch.setattr(acting, "time", SimpleNamespace(time=lambda: ahead))
    refused = pytest.raises(ClockAhead, match=r"this machine's clock is 3,\d{3} s ahead of ZooKeeper's.*Set the clocks")
    with refused, acting_as_master(zk, nodes, own, Candidate("a run", root)):
        pass
    assert not zk.exists(nodes.master)


@pytest.mark.parametrize("value", [None, b"", b"garbage", PBUF + b"\xff"])
def test_no_cluster_id_is_invented(zk, nodes, own, tmp_path, value):
    if value is not None:
        (tmp_path / "hbase.id").write_bytes(value)
    refused = pytest.raises(NoClusterId, match=r"hbase\.id: .*Check that this is the cluster's hbase\.rootdir")
    with refused, acting_as_master(zk, nodes, own, Candidate("a run", f"file://{tmp_path}")):
        pass
    assert not zk.exists(nodes.master)
    assert not zk.exists(nodes.running)


