"""Servers that are asked side by side, against servers that misbehave."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.unit.hbase.rpc.fake_server import FakeServer, exception, silence
from tests.unit.replication.sinks.hbase.test_replicate import closed_port, name
from walferry.admin.diagnosis import servers
from walferry.base.security.login import Kerberos, Login
from walferry.hbase.rpc.errors import RpcError

LOGIN = Login(user="etl")
DENIED = exception("org.apache.hadoop.hbase.security.AccessDeniedException", "Insufficient permissions (user=etl, action=WRITE)")


def test_those_that_do_not_answer_are_told_with_why() -> None:
    not_yet = exception("org.apache.hadoop.hbase.ipc.ServerNotRunningYetException", "not yet")
    with FakeServer() as good, FakeServer(not_yet) as starting, FakeServer(DENIED) as closed:
        gone = closed_port()
        answers = servers.ask([name(good), name(starting), gone, name(closed)], LOGIN)
        assert servers.answering(answers) == "2 of 4 answer"
        reported = [each.text for each in servers.silent(answers, "See to it")]
        assert [str(gone) in reported[0], "refused" in reported[0]] == [True, True]
        assert [str(name(closed)) in reported[1], "AccessDenied" in reported[1]] == [True, True]


def test_of_many_only_the_first_ones_are_told() -> None:
    answers: dict = {closed_port(): RpcError("no") for _ in range(servers.MAX_REPORTED + 5)}
    assert servers.silent(answers, "")[-1].text == f"{len(answers) - servers.MAX_REPORTED} more do not answer"


def test_all_of_them_are_waited_for_together_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "ALL_SECONDS", 0.3)
    monkeypatch.setattr(servers, "CALL_SECONDS", 0.2)
    with ExitStack() as stack:
        silent = [name(stack.enter_context(FakeServer(silence))) for _ in range(10)]
        answers = servers.ask(silent, LOGIN)
    assert all(isinstance(answer, RpcError) for answer in answers.values())


def test_a_shipment_without_entries_finds_out_whether_we_may_write() -> None:
    with FakeServer() as server:
        assert servers.may_write(name(server), LOGIN, "cluster of peer p").text == f"WRITE: {name(server)} accepts shipments"
        assert [request.header.method_name for request in server.requests] == ["ReplicateWALEntry"]
        assert not server.requests[0].param
        assert not server.requests[0].cells
    with FakeServer(DENIED) as server:
        finding = servers.may_write(name(server), LOGIN, "cluster of peer p")
    assert finding.severity == "wrong"
    assert "Insufficient permissions" in finding.text
    assert finding.advice == "In the HBase shell of the peer cluster: grant 'etl', 'W'"


def test_rights_are_granted_to_the_short_name_of_a_principal() -> None:
    login = Login(kerberos=Kerberos(principal="walferry/etl1@EAST"))
    assert servers.grant(login, "A", "the source") == "In the HBase shell of the source: grant 'walferry', 'A'"
