"""The master's role next to HMasters: it is refused while one is active, keeps others out, and is lost with its znode."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tests.zk.hbase_znodes import expire
from tests.zk.role_znodes import SERVER, become_active, create_region, nodes, own, root
from walferry.hbase.cluster import master
from walferry.hbase.layout import OwnZNodes
from walferry.master import role as master_role
from walferry.master.errors import ClockAhead, LiveMaster, RoleHeld, RoleLost
from walferry.master.role import Candidate, acting_as_master, publish, take_role

__all__ = ["nodes", "own", "root"]  # fixtures


def test_publishing_twice_is_publishing_once(zk, nodes, own):
    lock = take_role(zk, nodes, own, "a run")
    publish(zk, nodes, lock, SERVER)
    first = zk.exists(nodes.master)
    publish(zk, nodes, lock, SERVER)
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
    lock = take_role(zk, nodes, own, "a run")
    become_active(new_client(), nodes)
    with pytest.raises(LiveMaster):
        publish(zk, nodes, lock, SERVER)


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


def test_a_run_with_another_root_of_its_own_is_not_put_out(zk, new_client, nodes, own, root):
    with acting_as_master(zk, nodes, own, Candidate("a run", root, "the same")) as role:
        elsewhere = OwnZNodes(f"/elsewhere{nodes.base[6:]}", nodes)
        refused = pytest.raises(RoleHeld, match="a run whose connection has another walferry_root")
        with refused, acting_as_master(new_client(), nodes, elsewhere, Candidate("a run", root, "the same")):
            pass
        role.writes.write(create_region())


def test_a_clock_that_is_ahead_of_zookeeper_is_refused(zk, nodes, own, root, monkeypatch):
    """Otherwise opens would be taken from servers that have just begun, and hbase:meta would hide later changes by an HMaster."""
    ahead = time.time() + 3600
    monkeypatch.setattr(master_role, "time", SimpleNamespace(time=lambda: ahead))
    refused = pytest.raises(ClockAhead, match=r"this machine's clock is 3,\d{3} s ahead of ZooKeeper's.*Set the clocks")
    with refused, acting_as_master(zk, nodes, own, Candidate("a run", root)):
        pass
    assert not zk.exists(nodes.master)
