"""Servers are asked side by side; one that is silent, or is another one by now, is left out."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest
from google.protobuf.message import Message

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import admin as rpc
from walferry.hbase.rpc.errors import ConnectionFailed, RemoteError
from walferry.hbase.rpc.server import Caller, Method, RpcServer
from walferry.hbase.rpc.server_codec import CallRefused, JavaException
from walferry.master import calls
from walferry.master.calls import CalledServers, ToOpen, encoded_name_of
from walferry.master.states import RegionState
from walferry.master.znodes import META_ENCODED_NAME, RegionInTransition


def info(
    start: bytes = b"", *, table: str = "t", namespace: str = "default", region_id: int = 1, replica: int = 0
) -> pb.RegionInfo:
    name = pb.TableName(namespace=namespace.encode(), qualifier=table.encode())
    return pb.RegionInfo(region_id=region_id, table_name=name, start_key=start, replica_id=replica)


META = info(table="meta", namespace="hbase")


class FakeRegionServer:
    """Serves regions, and notes what it is asked to open and close."""

    def __init__(self, regions: Iterable[pb.RegionInfo], start_code: int = 1) -> None:
        self.regions = list(regions)
        self.start_code = start_code
        self.asked: list[Message] = []
        self.silent = threading.Event()
        self.refuses = False

    def __enter__(self) -> FakeRegionServer:
        methods = {
            "GetOnlineRegion": Method(pb.GetOnlineRegionRequest, self._online),
            "GetServerInfo": Method(pb.GetServerInfoRequest, self._info),
            "OpenRegion": Method(pb.OpenRegionRequest, self._note(pb.OpenRegionResponse())),
            "CloseRegion": Method(pb.CloseRegionRequest, self._note(pb.CloseRegionResponse(closed=True))),
        }
        self.server = RpcServer({"AdminService": methods})
        self.name = ServerName("127.0.0.1", self.server.port, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self.silent.clear()
        self.server.close()

    def _online(self, request: Message, caller: Caller) -> Message:
        while self.silent.is_set():
            time.sleep(0.01)
        return pb.GetOnlineRegionResponse(region_info=self.regions)

    def _info(self, request: Message, caller: Caller) -> Message:
        name = pb.ServerName(host_name="127.0.0.1", port=self.server.port, start_code=self.start_code)
        return pb.GetServerInfoResponse(server_info=pb.ServerInfo(server_name=name))

    def _note(self, answer: Message):
        def note(request: Message, caller: Caller) -> Message:
            if self.refuses:
                raise CallRefused(JavaException.IO, "not this one")
            self.asked.append(request)
            return answer

        return note


@pytest.fixture
def three() -> Iterator[list[FakeRegionServer]]:
    with ExitStack() as stack:
        servers = [FakeRegionServer([info(b"%d" % i)]) for i in range(3)]
        yield [stack.enter_context(server) for server in servers]


def test_each_server_says_what_it_serves(three):
    three[1].regions.append(META)
    found = CalledServers(login=Login(user="hbase")).online(server.name for server in three)
    assert found == {server.name: frozenset(encoded_name_of(region) for region in server.regions) for server in three}
    assert META_ENCODED_NAME in found[three[1].name]


def test_a_name_that_is_not_utf_8_hides_no_region_and_ends_no_look(three):
    odd = pb.RegionInfo(region_id=1, table_name=pb.TableName(namespace=b"\xfe", qualifier=b"\xff"), start_key=b"")
    three[0].regions.append(odd)
    found = CalledServers(login=Login(user="hbase")).online(server.name for server in three)
    assert {server: len(names) for server, names in found.items()} == {three[0].name: 2, three[1].name: 1, three[2].name: 1}


@pytest.mark.long
def test_silent_and_dead_servers_are_left_out_and_do_not_add_up(three, monkeypatch):
    monkeypatch.setattr(calls, "ONLINE_TIMEOUT_SECONDS", 1.0)
    three[0].silent.set()
    three[2].silent.set()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = ServerName("127.0.0.1", closed.getsockname()[1], 1)
    began = time.monotonic()
    found = CalledServers(login=Login(user="hbase")).online([dead, *(server.name for server in three)])
    assert found.keys() == {three[1].name}
    assert time.monotonic() - began < 1.9


def test_a_server_that_another_one_has_replaced_is_left_out(three, caplog):
    three[0].start_code = 2
    found = CalledServers(login=Login(user="hbase")).online(server.name for server in three)
    assert found.keys() == {three[1].name, three[2].name}
    assert f"127.0.0.1,{three[0].name.port},2 answers in place of {three[0].name}" in caplog.text


def test_without_servers_nobody_is_asked():
    assert CalledServers().online([]) == {}


def test_regions_are_opened_and_closed_at_the_version_of_their_znodes(three):
    name = b"t,,1.0123456789abcdef0123456789abcdef."
    znode = RegionInTransition(name, RegionState.OFFLINE, three[0].name, 7, 0, False, b"")
    servers = CalledServers(login=Login(user="hbase"))
    assert servers.open({three[0].name: [ToOpen(info(), znode), ToOpen(info(b"x"), znode)]}) == {}
    assert servers.close({three[0].name: [znode]}) == {}
    opened, closed = three[0].asked
    assert isinstance(opened, pb.OpenRegionRequest)
    assert isinstance(closed, pb.CloseRegionRequest)
    assert [(each.region.start_key, each.version_of_offline_node) for each in opened.open_info] == [(b"", 7), (b"x", 7)]
    assert (opened.serverStartCode, closed.serverStartCode) == (1, 1)
    assert (closed.region.value, closed.version_of_closing_node) == (b"0123456789abcdef0123456789abcdef", 7)
    assert closed.transition_in_ZK
    ahead = int(time.time() * 1000) + 3_600_000  # a clock that was ahead wrote the name of the server before
    assert servers.open({three[0].name: [ToOpen(info(), znode), ToOpen(info(b"x"), znode, ahead)]}) == {}
    usual, late = three[0].asked[2:]
    assert [each.region.start_key for each in usual.open_info] == [b""]
    assert usual.master_system_time < ahead - 3_000_000  # else that clock's error would spread to all regions of a call
    assert ([each.region.start_key for each in late.open_info], late.master_system_time) == ([b"x"], ahead + 1)
    three[0].refuses = True
    failed = servers.open({each.name: [ToOpen(info(), znode)] for each in three})
    assert failed.keys() == {three[0].name}
    assert isinstance(failed[three[0].name], RemoteError)
    assert "not this one" in str(failed[three[0].name])
    other = replace(znode, name=b"t,x,1.abcdef0123456789abcdef0123456789.")
    refused = servers.close({each.name: [znode, other] for each in three[:2]})
    assert refused.keys() == {znode.encoded_name, other.encoded_name}
    assert all(isinstance(error, RemoteError) and "not this one" in str(error) for error in refused.values())
    assert len(three[1].asked) == 3  # one open, two closes
    three[0].server.close()
    unreached = servers.close({three[0].name: [znode, other]})
    assert unreached.keys() == {znode.encoded_name, other.encoded_name}
    assert {type(error) for error in unreached.values()} == {ConnectionFailed}


@pytest.mark.long
def test_a_server_that_stands_still_is_not_waited_for_once_a_region(three, monkeypatch):
    monkeypatch.setattr(rpc, "close_regions", partial(rpc.close_regions, timeout=1.0))
    regions = [
        RegionInTransition(b"t,,%d.%032x." % (i, i), RegionState.CLOSING, three[1].name, 0, 0, False, b"") for i in range(20)
    ]
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as still:
        silent = ServerName("127.0.0.1", still.getsockname()[1], 1)
        servers = CalledServers(login=Login(user="hbase"))
        failed = servers.close({silent: regions[:10], three[1].name: regions[10:]})
    assert failed.keys() == {region.encoded_name for region in regions[:10]}
    assert len(three[1].asked) == 10
    assert time.monotonic() - began < 9


@pytest.mark.parametrize("name", ["regionserver.RegionAlreadyInTransitionException", "NotServingRegionException"])
def test_a_region_that_is_closing_or_closed_may_be_asked_for_again(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def close(_: ServerName, versions: Mapping[str, int], **__: object) -> dict[str, RemoteError]:
        return {encoded: RemoteError("rs", f"org.apache.hadoop.hbase.{name}", "it is closed") for encoded in versions}

    monkeypatch.setattr(rpc, "close_regions", close)
    server = ServerName("rs", 16020, 1)
    znode = RegionInTransition(b"t,,1.ab.", RegionState.CLOSING, server, 0, 0, False, b"")
    assert CalledServers().close({server: [znode]}) == {}


def test_encoded_names_are_hbases_own():
    # As an HBase 1.7.2 named them.
    namespaces = info(table="namespace", namespace="hbase", region_id=1795365832376)
    assert encoded_name_of(namespaces) == "a3ba1ffb9b5cd5ae9d7698cc5f53f673"
    assert encoded_name_of(info(b"m", region_id=1795365847043)) == "26da42e8075b3a6ea0100b7c1ee03d0b"
    assert encoded_name_of(META) == META_ENCODED_NAME
    assert encoded_name_of(info(replica=1)) != encoded_name_of(info())
