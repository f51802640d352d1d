"""A master that tests call as RegionServers do, over a real connection."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.server import RpcServer
from walferry.master import master_calls
from walferry.master.errors import RoleLost
from walferry.master.master_calls import SERVICE, MasterCalls, ServerRegistry

NOW = 1_700_000_000.0
A = ServerName("a.example.org", 16020, 100)
A_LATER = ServerName("a.example.org", 16020, 200)
B = ServerName("b.example.org", 16020, 150)
SETTINGS = {"hbase.rootdir": "hdfs://nn:8020/hbase", "fs.defaultFS": "hdfs://nn:8020"}
lost: list[str] = []


def check() -> None:
    if lost:
        raise RoleLost(lost[0])


@pytest.fixture(autouse=True)
def role_is_held() -> Iterator[None]:
    yield
    lost.clear()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> ServerRegistry:
    monkeypatch.setattr(master_calls, "time", SimpleNamespace(time=lambda: NOW))
    return ServerRegistry()


@pytest.fixture
def master(registry: ServerRegistry, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(master_calls, "host_name", {"127.0.0.1": "a.example.org"}.__getitem__)
    calls = MasterCalls(registry, check, SETTINGS)
    login = Login(user="hbase")
    with RpcServer(calls.services()) as server, Connection("127.0.0.1", server.port, SERVICE, login=login) as connection:
        yield connection


def start(master: Connection, server: ServerName, skew: float = 0.0, host: str = "") -> dict[str, str]:
    request = pb.RegionServerStartupRequest(
        port=server.port, server_start_code=server.start_code, server_current_time=int((NOW + skew) * 1000)
    )
    if host:
        request.use_this_hostname_instead = host
    answer = master.call("RegionServerStartup", request, pb.RegionServerStartupResponse)
    return {entry.name: entry.value for entry in answer.map_entries}


def message(server: ServerName) -> pb.ServerName:
    return pb.ServerName(host_name=server.host, port=server.port, start_code=server.start_code)


def report(master: Connection, server: ServerName) -> None:
    master.call("RegionServerReport", pb.RegionServerReportRequest(server=message(server)), pb.RegionServerReportResponse)
