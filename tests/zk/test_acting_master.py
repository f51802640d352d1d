"""RegionServers wait for whoever acts as the master, who answers them as long as the role is held."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.zk.hbase_znodes import expire
from tests.zk.role_znodes import ID, SERVER, create_region, nodes, own, root
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.hbase.cluster import cluster_id, live_servers, master
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import ServerNotReady
from walferry.master.master_calls import SERVICE
from walferry.master.role import Candidate, acting_as_master

__all__ = ["nodes", "own", "root"]  # fixtures


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
            assert role.lock.lost.wait(10)
            with pytest.raises(ServerNotReady):
                report()
