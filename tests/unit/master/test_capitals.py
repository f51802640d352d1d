"""Hosts with capitals: HBase keeps them in messages and in hbase:meta, but names znodes and folders in small letters."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import ZNode
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import admin as rpc
from walferry.hbase.rpc.server_codec import CallRefused
from walferry.hbase.tables.regions import read_meta_row
from walferry.hbase.values import PBUF
from walferry.master.master_calls import MasterCalls, ServerRegistry
from walferry.master.znodes import decode_region

LIVE = ServerName("rs1.example.org", 16020, 17)  # as its znode and its folder of WALs have it
IN_MESSAGES = pb.ServerName(host_name="RS1.Example.org", port=16020, start_code=17)
REGION = f"t,,1.{1:032x}.".encode()


def test_a_region_s_znode_names_the_live_server() -> None:
    message = pb.RegionTransition(event_type_code=4, region_name=REGION, create_time=1, server_name=IN_MESSAGES)
    stat: Any = SimpleNamespace(version=0, mtime=0, ctime=0, czxid=1, ephemeralOwner=0)
    found = decode_region(ZNode(PBUF + message.SerializeToString(), stat), f"/hbase/region-in-transition/{1:032x}")
    assert found.server == LIVE


def test_hbase_meta_names_the_live_server() -> None:
    """Otherwise a region would not wait for the WALs of its dead server."""
    info = pb.RegionInfo(region_id=1, table_name=pb.TableName(namespace=b"default", qualifier=b"t"))
    values = {
        b"regioninfo": PBUF + info.SerializeToString(),
        b"server": b"RS1.Example.org:16020",
        b"serverstartcode": (17).to_bytes(8),
    }
    cells = b"".join(Cell(REGION, b"info", column, 1, PUT, value).encode() for column, value in values.items())
    found = read_meta_row(REGION, cells)
    assert found is not None
    assert found.server == LIVE


def test_a_server_that_was_given_up_hears_it_under_any_spelling() -> None:
    registry = ServerRegistry()
    calls = MasterCalls(registry, lambda: None, {}).services()["RegionServerStatusService"]
    registry.give_up(LIVE)
    with pytest.raises(CallRefused, match=r"rs1\.example\.org"):
        calls["RegionServerReport"].answer(pb.RegionServerReportRequest(server=IN_MESSAGES), None)


def test_a_server_starts_under_the_spelling_that_it_uses_itself() -> None:
    calls = MasterCalls(ServerRegistry(), lambda: None, {}).services()["RegionServerStatusService"]
    request = pb.RegionServerStartupRequest(
        port=16020, server_start_code=17, server_current_time=int(time.time() * 1000), use_this_hostname_instead="RS1.Example.org"
    )
    answer = calls["RegionServerStartup"].answer(request, SimpleNamespace(host="127.0.0.1"))
    assert [entry.value for entry in answer.map_entries] == ["RS1.Example.org"]


def test_a_server_that_answers_is_the_one_that_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Connected:
        def __enter__(self) -> Connected:
            return self

        def __exit__(self, *_: object) -> None: ...

        def call(self, method: str, *_: object) -> Any:
            return pb.GetOnlineRegionResponse() if method == "GetOnlineRegion" else pb.GetServerInfoResponse(
                server_info=pb.ServerInfo(server_name=IN_MESSAGES)
            )  # fmt: skip

    monkeypatch.setattr(rpc, "connect", lambda *_, **__: Connected())
    assert rpc.online_regions(LIVE) == []
