"""A peer cluster's classes for replicated edits are found by the web pages of its servers, whatever these answer."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from tests.zk.hbase_znodes import SERVER, HBaseZNodes
from tests.zk.web_page import Answer, add_server, page, web_page
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase import web_pages
from walferry.hbase.values import PBUF
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.peers.settings import SinkHooks, SinkKind
from walferry.replication.sinks import of_peer
from walferry.replication.sinks.hbase import hooks
from walferry.replication.sinks.hbase.hooks import HARMLESS, Hooks, hooks_of
from walferry.replication.sinks.of_peer import shipping_settings
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping import ship_run

COPROCESSORS, FILTER = hooks.KEYS


def configuration(**values: str) -> bytes:
    """Write a configuration as ConfServlet does. The names are `coprocessors` and `filter`, for the keys that count."""
    keys = {"coprocessors": COPROCESSORS, "filter": FILTER}
    properties = [{"key": "hbase.rootdir", "value": "x", "isFinal": False, "resource": "hbase-site.xml"}]
    return json.dumps(
        {"properties": properties + [{"key": keys[name], "value": value} for name, value in values.items()]}
    ).encode()


@pytest.fixture
def alone(hbase: HBaseZNodes) -> HBaseZNodes:
    """A cluster without the live server that the fixture has, which publishes no port."""
    hbase.stop_server(SERVER)
    return hbase


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({}, ()),
        ({"coprocessors": "", "filter": ""}, ()),
        ({"coprocessors": ",".join(HARMLESS)}, ()),
        ({"coprocessors": " a.B|7|hdfs:///x.jar , " + min(HARMLESS), "filter": "c.D"}, ("a.B", "c.D")),
        ({"filter": "a.B,a.B"}, ("a.B",)),
    ],
)
def test_classes_that_are_not_hbase_s_own_are_found(
    zk: KazooClient, alone: HBaseZNodes, values: dict[str, str], names: tuple[str, ...]
) -> None:
    with web_page(page(configuration(**values))) as port:
        add_server(alone, port)
        assert hooks_of(zk, alone.nodes) == Hooks(names)


def endless(handler: BaseHTTPRequestHandler, begin: bytes, again: bytes) -> None:
    handler.wfile.write(b"HTTP/1.1 " + begin)
    with suppress(OSError):
        while True:
            handler.wfile.write(again)
            time.sleep(0.02)


def drip(handler: BaseHTTPRequestHandler) -> None:
    endless(handler, b"200 OK\r\n\r\n", b" ")


def go_on(handler: BaseHTTPRequestHandler) -> None:
    endless(handler, b"100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n")


def trailers(handler: BaseHTTPRequestHandler) -> None:
    endless(handler, b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (page(b"", 401), "HTTP 401"),
        (page(b"", 302), "HTTP 302"),
        (page(b"<html>"), "not JSON"),
        (page(b"[]"), "no list of properties"),
        (page(b'{"properties": 7}'), "no list of properties"),
        (page(b"x" * 500), "more than 400"),
        (page(configuration(filter="x" * 150)), "more than 100 characters"),
        (drip, "within 0.5 s"),
        (go_on, "within 0.5 s"),
        (trailers, "within 0.5 s"),
    ],
    ids=["login", "redirect", "html", "list", "number", "too long", "long value", "byte by byte", "100 Continue", "trailers"],
)
def test_a_page_that_does_not_tell_is_no_configuration(
    zk: KazooClient, alone: HBaseZNodes, answer: Answer, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_pages, "PAGE_SECONDS", 0.5)
    monkeypatch.setattr(web_pages, "MAX_BYTES", 400)
    monkeypatch.setattr(web_pages, "MAX_VALUE_CHARS", 100)
    with web_page(answer) as port:
        add_server(alone, port)
        found = hooks_of(zk, alone.nodes)
    assert found.names == ()
    assert why in found.unknown
    assert [thread.name for thread in threading.enumerate() if thread.name == "one of several questions"] == []


def test_what_is_no_web_page_and_a_port_without_a_listener_do_not_tell(zk: KazooClient, alone: HBaseZNodes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        add_server(alone, silent.getsockname()[1])
    assert "refused" in hooks_of(zk, alone.nodes).unknown


def test_properties_that_are_none_are_skipped(zk: KazooClient, alone: HBaseZNodes) -> None:
    odd = [
        7,
        None,
        {},
        {"key": FILTER},
        {"key": FILTER, "value": 7},
        {"key": [], "value": "x"},
        {"key": COPROCESSORS, "value": "a.B"},
    ]
    with web_page(page(json.dumps({"properties": odd}).encode())) as port:
        add_server(alone, port)
        assert hooks_of(zk, alone.nodes) == Hooks(("a.B",))


def test_one_server_that_tells_is_enough(zk: KazooClient, alone: HBaseZNodes) -> None:
    with web_page(page(configuration(filter="a.B"))) as port, web_page(page(b"", 401)) as other:
        add_server(alone, port)
        add_server(alone, other, 2)
        assert hooks_of(zk, alone.nodes) == Hooks(("a.B",))


@pytest.mark.parametrize("port", [0, -1, 1 << 17])
def test_servers_without_pages_do_not_tell(zk: KazooClient, alone: HBaseZNodes, port: int) -> None:
    add_server(alone, port)
    assert "no web pages" in hooks_of(zk, alone.nodes).unknown


def test_names_are_shown_on_one_bounded_line() -> None:
    shown = str(Hooks(tuple(f"a\n{number}{'x' * 1000}" for number in range(9))))
    assert "\n" not in shown
    assert len(shown) < 1_200
    assert shown.endswith("and 4 more")


@pytest.mark.parametrize(
    ("sink", "sink_hooks", "chosen"),
    [
        (SinkKind.AUTO, SinkHooks.LOOK, SinkKind.REPLICATE),
        (SinkKind.AUTO, SinkHooks.PRESENT, SinkKind.REPLICATE),
        (SinkKind.AUTO, SinkHooks.NONE, SinkKind.AUTO),
        (SinkKind.DIRECT, SinkHooks.LOOK, SinkKind.DIRECT),
        (SinkKind.HFILES, SinkHooks.PRESENT, SinkKind.HFILES),
    ],
)
def test_auto_heeds_the_classes_and_a_sink_that_was_chosen_stays(
    at: SourceCluster, alone: HBaseZNodes, sink: SinkKind, sink_hooks: SinkHooks, chosen: SinkKind
) -> None:
    with web_page(page(configuration(filter="a.B"))) as port:
        add_server(alone, port)
        config = {"walferry.sink": sink, "walferry.sink_hooks": sink_hooks}
        peer = Peer("p", f"{at.quorum}:{at.znode_parent}", DISABLED, config)
        assert shipping_settings(peer, at).sink is chosen


def test_a_name_that_is_impossible_in_dns_does_not_tell(zk: KazooClient, alone: HBaseZNodes) -> None:
    value = PBUF + pb.RegionServerInfo(infoPort=1).SerializeToString()
    for name in ("a..b", "x" * 70):
        alone.zk.create(f"{alone.nodes.rs}/{name},16020,1", value)
    assert "/conf: " in hooks_of(zk, alone.nodes).unknown


@pytest.mark.parametrize("error", [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"), struct.error("5 bytes"), NoAuthError()])
def test_an_answer_of_zookeeper_that_makes_no_sense_is_none(
    at: SourceCluster, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(hooks, "hooks_of", refuse)
    found = hooks.hooks_of_peer(Peer("p", f"{at.quorum}:{at.znode_parent}", DISABLED, {}), at)
    assert (found.names, bool(found.unknown)) == ((), True)


def test_rows_heed_what_the_peer_says_without_a_look(at: SourceCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_peer, "hooks_of_peer", lambda *_: pytest.fail("the peer cluster is asked"))
    for sink_hooks, sink in (("look", SinkKind.AUTO), ("present", SinkKind.REPLICATE), ("none", SinkKind.AUTO)):
        peer = Peer("p", "localhost:1:/none", DISABLED, {"walferry.sink": "auto", "walferry.sink_hooks": sink_hooks})
        assert shipping_settings(peer, at, look=False).sink is sink


def test_a_batch_without_queued_wals_does_not_look(at: SourceCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer("p", f"{at.quorum}:{at.znode_parent}", DISABLED, {"walferry.sink": "auto"})
    monkeypatch.setattr(ship_run, "check_peer", lambda *_: peer)  # which asks a Master
    monkeypatch.setattr(of_peer, "hooks_of_peer", lambda *_: pytest.fail("the peer cluster is asked"))
    assert ship_run.begin(ship_run.ShipRun(source=at, peer_id="p", run_id="run", deadline=60.0)) == []


def test_without_a_peer_cluster_auto_stays(at: SourceCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "ZOOKEEPER_SECONDS", 0.5)
    peer = Peer("p", "localhost:1:/none", DISABLED, {"walferry.sink": "auto"})
    assert shipping_settings(peer, at).sink is SinkKind.AUTO
