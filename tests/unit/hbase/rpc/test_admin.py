"""Calls to a RegionServer's AdminService."""

from tests.unit.hbase.rpc.fake_server import FakeServer, answer
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.hbase.rpc import admin


def test_rolling_asks_the_region_server_named():
    with FakeServer() as server:
        admin.roll_wal_writer(server, login=Login(user="hbase"), timeout=5)
    (request,) = server.requests
    assert (request.header.method_name, request.connection.service_name) == ("RollWALWriter", "AdminService")


def test_a_region_server_tells_the_numbers_of_its_regions():
    told = pb.GetRegionLoadResponse()
    region = pb.RegionSpecifier(type=pb.RegionSpecifier.REGION_NAME, value=b"t,,1.e.")
    told.region_loads.add(region_specifier=region, storefiles=2, write_requests_count=7, complete_sequence_id=5)
    with FakeServer(lambda request: answer(request, told.SerializeToString())) as server:
        assert admin.region_loads(server, timeout=5) == list(told.region_loads)
    (request,) = server.requests
    assert (request.header.method_name, request.connection.service_name) == ("GetRegionLoad", "AdminService")
