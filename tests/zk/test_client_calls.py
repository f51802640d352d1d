"""Clients that ask us, as the master, to enable and disable tables: over a real connection, with states in a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.zk.flows import Flows, flows
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import RemoteError, ServerNotReady, TableNotFound
from walferry.hbase.rpc.server import RpcServer
from walferry.master import client_calls
from walferry.master.catalog import CatalogRead
from walferry.master.client_calls import MAX_NONCES, RIGHTS_TABLE, SERVICE, ClientCalls
from walferry.master.tables import TableState, read_state

__all__ = ["flows"]  # a fixture


@pytest.fixture
def changed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def client(flows: Flows, changed: threading.Event, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A client, of a cluster whose hbase:meta has the table t only."""
    known(monkeypatch, "t", "hbase:namespace")
    calls = ClientCalls(flows.world.zk, flows.world.nodes, flows.lock, flows.lock.check, changed)
    with RpcServer(calls.services()) as server, Connection("127.0.0.1", server.port, SERVICE) as connection:
        yield connection


def known(monkeypatch: pytest.MonkeyPatch, *tables: str) -> list[None]:
    """Let hbase:meta have these tables. Returns a list that grows with each look at it."""
    looks: list[None] = []
    catalog: Any = {table: SimpleNamespace(info=pb.RegionInfo(table_name=name(table))) for table in (*tables, "hbase:meta")}

    def read_catalog(*_: Any, **__: Any) -> CatalogRead:
        looks.append(None)
        return CatalogRead(catalog)

    monkeypatch.setattr(client_calls, "read_catalog", read_catalog)
    return looks


def name(table: str) -> pb.TableName:
    namespace, _, qualifier = table.rpartition(":")
    return pb.TableName(namespace=(namespace or "default").encode(), qualifier=qualifier.encode())


def disable(client: Connection, table: str = "t", nonce: int = 0) -> None:
    request = pb.DisableTableRequest(table_name=name(table), nonce_group=7, nonce=nonce)
    assert not client.call("DisableTable", request, pb.DisableTableResponse).HasField("proc_id")


def enable(client: Connection, table: str = "t", nonce: int = 0) -> None:
    request = pb.EnableTableRequest(table_name=name(table), nonce_group=7, nonce=nonce)
    assert not client.call("EnableTable", request, pb.EnableTableResponse).HasField("proc_id")


def state(flows: Flows, table: str = "t") -> TableState:
    return read_state(flows.world.zk, flows.world.nodes, table).state


def test_a_table_is_disabled_and_enabled_by_the_passes_that_follow(flows: Flows, client: Connection, changed: threading.Event):
    flows.until_quiet()
    assert client.call("IsMasterRunning", pb.IsMasterRunningRequest(), pb.IsMasterRunningResponse).is_master_running
    disable(client)
    assert changed.is_set()
    assert state(flows) is TableState.DISABLING
    flows.until_quiet()
    assert (flows.served(), state(flows)) == ({}, TableState.DISABLED)
    enable(client)
    flows.until_quiet()
    assert flows.served()
    assert state(flows) is TableState.ENABLED


def test_a_second_try_of_a_call_whose_answer_was_lost_is_answered_as_the_first_one(flows: Flows, client: Connection):
    flows.until_quiet()
    disable(client, nonce=5)
    flows.until_quiet()
    disable(client, nonce=5)
    with pytest.raises(RemoteError, match="TableNotEnabledException"):
        disable(client, nonce=6)
    with pytest.raises(RemoteError, match="TableNotEnabledException"):
        disable(client)
    assert state(flows) is TableState.DISABLED


def test_of_many_calls_only_the_last_ones_are_remembered(flows: Flows, client: Connection, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client_calls, "MAX_NONCES", 2)
    assert MAX_NONCES >= 100
    flows.until_quiet()
    for nonce in (1, 2, 3):
        disable(client, nonce=nonce)
    flows.until_quiet()
    for nonce in (2, 3):
        disable(client, nonce=nonce)
    with pytest.raises(RemoteError, match="TableNotEnabledException"):
        disable(client, nonce=1)


@pytest.mark.parametrize("table", ["../../peers", "a/b", "a b", "", "x:y:z", "\x00"])
def test_what_is_no_name_of_a_table_does_not_get_into_a_path(flows: Flows, client: Connection, table: str):
    before = flows.world.zk.get_children(flows.world.nodes.base)
    for call in (disable, enable):
        with pytest.raises(RemoteError, match=r"DoNotRetryIOException: .*is not the name of a table"):
            call(client, table)
    assert flows.world.zk.get_children(flows.world.nodes.base) == before


def test_there_must_be_such_a_table(flows: Flows, client: Connection):
    with pytest.raises(TableNotFound):  # as Walferry's own client understands HBase's TableNotFoundException
        disable(client, "n:other")
    assert read_state(flows.world.zk, flows.world.nodes, "n:other").version is None


def test_who_asks_for_tables_that_there_are_not_has_hbase_meta_read_only_now_and_then(
    client: Connection, monkeypatch: pytest.MonkeyPatch
):
    looks = known(monkeypatch, "t")
    for number in range(5):
        with pytest.raises(TableNotFound):
            disable(client, f"x{number}")
    assert len(looks) == 1


def test_while_hbase_meta_cannot_be_read_a_client_may_try_again(client: Connection, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client_calls, "read_catalog", lambda *_, **__: CatalogRead({}, complete=False))
    with pytest.raises(RemoteError, match=r"IOException: .*hbase:meta cannot be read now") as raised:
        disable(client)
    assert not raised.value.do_not_retry


@pytest.mark.parametrize("table", ["hbase:meta", "hbase:namespace", "hbase:acl"])
def test_hbase_s_own_tables_stay_enabled(flows: Flows, client: Connection, table: str):
    with pytest.raises(RemoteError, match=f"{table} is one of HBase's own, and stays enabled"):
        disable(client, table)
    assert read_state(flows.world.zk, flows.world.nodes, table).version is None


@pytest.mark.parametrize("by", ["table", "znode"])
def test_a_cluster_that_keeps_rights_refuses_since_we_check_none(
    flows: Flows, client: Connection, monkeypatch: pytest.MonkeyPatch, by: str
):
    """ZooKeeper may have lost all data, or the table may have been dropped."""
    if by == "table":
        known(monkeypatch, "t", RIGHTS_TABLE)
    else:
        flows.world.zk.create(flows.world.nodes.rights, b"")
    for call in (disable, enable):
        with pytest.raises(RemoteError, match="AccessDeniedException: this cluster keeps rights in hbase:acl"):
            call(client)
    assert state(flows) is TableState.ENABLED


def test_what_hbase_can_do_besides_is_refused_for_good(client: Connection):
    with pytest.raises(RemoteError, match="can only enable and disable tables: start an HMaster for all else") as raised:
        client.call("CreateTable", pb.DisableTableRequest(table_name=name("t")), pb.DisableTableResponse)
    assert raised.value.do_not_retry


def test_nobody_is_answered_once_the_role_is_lost(flows: Flows, client: Connection):
    flows.lock.lost.set()
    calls: list[Callable[[], object]] = [
        lambda: disable(client), lambda: enable(client),
        lambda: client.call("IsMasterRunning", pb.IsMasterRunningRequest(), pb.IsMasterRunningResponse),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ServerNotReady):
            call()
    assert isinstance(flows.lock, FencedLock)
    assert state(flows) is TableState.ENABLED
