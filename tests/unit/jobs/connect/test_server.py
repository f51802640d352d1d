"""Calls of a Spark Connect server: who may make them, and what their errors say."""

from __future__ import annotations

import socket

import pytest

from tests.unit.jobs.connect.fake_connect import Fake
from walferry.base.protos import spark_connect_pb2 as messages
from walferry.jobs.connect.errors import MAX_DETAIL_CHARS, ConnectFailed, ServerGone, ServerRefuses
from walferry.jobs.connect.server import Address, Server
from walferry.jobs.connect.sessions import Session

TOKEN = "a-secret-token"
ASKED = messages.ArtifactStatusesRequest(session_id="s", names=["cache/x"])


def test_calls_carry_the_token(fake: Fake) -> None:
    fake.token = TOKEN
    with Server(fake.address) as server:
        assert not server.call("ArtifactStatus", ASKED, messages.ArtifactStatusesResponse).statuses["cache/x"].exists


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_wrong_token_is_refused_and_no_message_has_it(fake: Fake, token: str) -> None:
    fake.token = TOKEN
    with Server(Address("127.0.0.1", fake.port, token=token)) as server, pytest.raises(ServerRefuses) as refused:
        server.call("ArtifactStatus", ASKED, messages.ArtifactStatusesResponse)
    assert "Invalid authentication token. Its token is the password of the connection" in str(refused.value)
    assert "wrong" not in str(refused.value)


def test_a_server_that_repeats_the_token_does_not_have_it_shown(fake: Fake) -> None:
    fake.token = TOKEN
    fake.streams = [[Exception(f"bad header: Bearer {TOKEN}")]]
    with Server(fake.address) as server, pytest.raises(ConnectFailed, match=r"bad header: Bearer \(the token\)") as failed:
        list(server.stream("ExecutePlan", messages.ExecutePlanRequest(session_id="s")))
    assert TOKEN not in str(failed.value)


@pytest.mark.parametrize(
    ("host", "text"), [("::1", "[::1]:15002"), ("[::1]", "[::1]:15002"), ("127.0.0.1", "127.0.0.1:15002"), ("h", "h:15002")]
)
def test_an_address_is_what_grpc_takes(host: str, text: str) -> None:
    assert str(Address(host)) == text


def test_an_address_never_shows_its_token() -> None:
    address = Address("h", token=TOKEN)
    session = Session(Server(address), "id")
    assert not any(TOKEN in text for text in (repr(address), str(address), repr(session), f"{address!r:>200}"))


def test_a_server_that_nothing_listens_for_is_gone() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with Server(Address("127.0.0.1", port)) as server, pytest.raises(ServerGone, match=f"127.0.0.1:{port}.*Connection refused"):
        server.call("ArtifactStatus", ASKED, messages.ArtifactStatusesResponse)


def test_a_server_that_says_nothing_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.jobs.connect.server.CALL_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with Server(Address("127.0.0.1", port)) as server, pytest.raises(ServerGone):
            server.call("ArtifactStatus", ASKED, messages.ArtifactStatusesResponse)


def test_what_a_server_says_becomes_one_bounded_line(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "\x1b[31mwrong\n" * 1000
    fake.streams = [[Exception(said)]]
    with Server(fake.address) as server, pytest.raises(ConnectFailed) as failed:
        list(server.stream("ExecutePlan", messages.ExecutePlanRequest(session_id="s")))
    assert str(failed.value).isprintable()
    assert len(str(failed.value)) < MAX_DETAIL_CHARS + 100


@pytest.mark.parametrize(
    ("host", "local"),
    [("localhost", True), ("127.0.0.1", True), ("127.0.0.9", True), ("[::1]", True), ("0.0.0.0", False), ("spark", False)],
)
def test_only_addresses_of_this_machine_are_local(host: str, local: bool) -> None:
    assert Address(host).local is local
