"""Calls to a RegionServer's AdminService."""

from tests.unit.hbase.rpc.fake_server import FakeServer
from walferry.base.security.login import Login
from walferry.hbase.rpc import admin


def test_rolling_asks_the_region_server_named():
    with FakeServer() as server:
        admin.roll_wal_writer(server, login=Login(user="hbase"), timeout=5)
    (request,) = server.requests
    assert (request.header.method_name, request.connection.service_name) == ("RollWALWriter", "AdminService")
