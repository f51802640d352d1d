"""The begin of a connection: a server's possible answers, and errors that end the connection before anything was sent to it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.base.security.fake_gssapi import FakeContext, FakeCredential, offer
from tests.unit.hbase.rpc.fake_server import delimited, framed
from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.gssapi import HostNotNamed, KdcSilent, KerberosError
from walferry.base.security.login import Kerberos, Protection
from walferry.base.security.sasl import ProtectionRefused
from walferry.base.security.waiting import ANY, Slow
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import negotiation
from walferry.hbase.rpc.codec import CodecError
from walferry.hbase.rpc.errors import NotSecured, PrincipalNotNamed, RemoteError, SaslRefused, WrongServerPrincipal
from walferry.hbase.rpc.negotiation import LateRefusal, Server, candidates, kerberos

SERVER = Server("RS1.example.org", "RS1.example.org:16020")
PRINCIPAL = "hbase/rs1.example.org@EXAMPLE.COM"
LOGIN = Kerberos(principal="walferry@EXAMPLE.COM", keytab="/k")
MOST = 1000


@pytest.fixture
def credential(monkeypatch: pytest.MonkeyPatch) -> FakeCredential:
    made = FakeCredential()
    monkeypatch.setattr(negotiation, "credential_of", lambda login: made)
    monkeypatch.setattr(negotiation, "Context", lambda credential, principal: FakeContext())
    return made


def lead(answers: bytes, login: Kerberos = LOGIN) -> tuple[object, list[bytes]]:
    """Lead a negotiation with a server that has said all of `answers`, and return its result and what was sent."""
    steps, sent, at = kerberos(SERVER, login, MOST), list[bytes](), 0
    wanted = next(steps)
    while True:
        came = b""
        if isinstance(wanted, Slow):
            came = wanted.call()
        elif isinstance(wanted, bytes):
            sent.append(wanted)
        else:
            assert wanted != ANY
            came = answers[at : at + wanted]
            at += wanted
            if len(came) < wanted:
                raise EOFError
        try:
            wanted = steps.send(came)
        except StopIteration as end:
            return end.value, sent


def token(data: bytes) -> bytes:
    return struct.pack(">ii", 0, len(data)) + data


def refusal(class_name: str, message: str) -> bytes:
    return struct.pack(">i", 1) + framed(class_name.encode()) + framed(message.encode())


def answer(message: bytes, call_id: int = 0xFFFFFFFF) -> bytes:
    return framed(delimited(pb.ResponseHeader(call_id=call_id).SerializeToString()) + delimited(message))


@pytest.mark.parametrize(
    ("offered", "protection", "layers"),
    [
        (["authentication"], Protection.AUTHENTICATION, ["LateRefusal"]),
        (["authentication", "integrity"], Protection.INTEGRITY, ["LateRefusal", "Wraps"]),
        (["privacy"], Protection.PRIVACY, ["LateRefusal", "Wraps"]),
    ],
)
def test_both_sides_agree_on_a_protection(credential, offered, protection, layers):
    (found, made), sent = lead(token(b"server's") + token(offer(*offered)))
    assert found is protection
    assert [type(layer).__name__ for layer in made] == layers
    assert sent[0] == b"HBas\x00\x51" + framed(b"token")
    assert sent[1] == framed(b"")
    assert credential.forgotten == 0


def test_a_server_of_a_peer_cluster_on_a_host_that_no_connection_names_gets_nothing(credential):
    with pytest.raises(
        HostNotNamed, match=f"is not used with the host '{SERVER.host}', which only the peer cluster names"
    ) as caught:
        lead(b"", Kerberos(principal="w@R", hosts=("*.west.example.com",), only_hosts=True))
    assert not caught.value.retry_helps


def test_a_server_that_says_it_is_not_secured_gets_nothing(credential):
    with pytest.raises(NotSecured, match="it says that it is not secured") as caught:
        lead(struct.pack(">ii", 0, -88))
    assert not caught.value.retry_helps


def test_a_refusal_is_told_in_the_server_s_words_and_the_next_try_takes_new_tickets(credential):
    with pytest.raises(SaslRefused, match="it refused us: SaslException: GSS initiate failed") as caught:
        lead(refusal("javax.security.sasl.SaslException", "GSS initiate failed"))
    assert caught.value.retry_helps
    assert credential.forgotten == 1


def test_words_of_a_refusal_cannot_forge_lines_or_fill_logs(credential):
    with pytest.raises(SaslRefused) as caught:
        lead(refusal("a\nWARNING forged", "x\r\n" * 20_000))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_kdcs_that_do_not_answer_in_time_are_told(credential):
    steps = kerberos(SERVER, LOGIN, MOST)
    assert isinstance(next(steps), Slow)
    with pytest.raises(KdcSilent, match=r"for hbase/rs1\.example\.org@EXAMPLE\.COM in time: no KDC has answered yet"):
        steps.throw(TimeoutError())


@pytest.mark.parametrize("length", [-1, 64 * 1024 + 1, 2**31 - 1])
@pytest.mark.parametrize("place", ["token", "class", "message"])
def test_lengths_that_no_server_means_are_refused_before_they_are_waited_for(credential, length, place):
    head = {"token": struct.pack(">i", 0), "class": struct.pack(">i", 1), "message": struct.pack(">i", 1) + framed(b"C")}
    with pytest.raises(CodecError, match=f"of {length} bytes"):
        lead(head[place] + struct.pack(">i", length))


@pytest.mark.parametrize("status", [-1, 2, 88, 2**31 - 1])
def test_a_status_that_there_is_not_is_refused(credential, status):
    with pytest.raises(CodecError, match=f"a SASL status of {status}"):
        lead(struct.pack(">i", status))


def test_a_weaker_protection_than_demanded_is_refused_by_name(credential):
    with pytest.raises(ProtectionRefused, match="hbase/rs1"):
        lead(token(b"t") + token(offer("integrity")), Kerberos(principal="w@R", protection=Protection.PRIVACY))


@pytest.mark.parametrize(
    ("servers", "principals"),
    [
        ((), ["hbase/rs1.example.org@EXAMPLE.COM"]),
        (("hb/_HOST@OTHER",), ["hb/rs1.example.org@OTHER"]),
        (("hb/_HOST", "hbase/vip@OTHER"), ["hb/rs1.example.org@EXAMPLE.COM", "hbase/vip@OTHER"]),
        (("hbase", "hbase"), ["hbase@EXAMPLE.COM"]),
    ],
)
def test_principals_of_servers_are_written_as_in_hadoop(servers, principals):
    assert candidates(SERVER, Kerberos(principal="walferry@EXAMPLE.COM", servers=servers)) == principals


def test_a_host_does_not_choose_the_realm():
    found = candidates(Server("rs1@evil", "rs1@evil:16020"), Kerberos(principal="walferry@EXAMPLE.COM"))
    assert found == ["hbase/rs1@evil@EXAMPLE.COM"]  # which is no principal


def test_without_a_realm_of_our_own_the_library_knows_it():
    assert candidates(SERVER, Kerberos()) == ["hbase/rs1.example.org"]


def test_a_peer_cluster_names_no_host_that_chooses_a_realm_where_ours_is_not_known() -> None:
    """Else it would be talked to as hbase/x@EVIL.west.example.com, in the realm EVIL.west.example.com."""
    ours = Kerberos(hosts=("*.west.example.com",), only_hosts=True)
    assert ours.may_meet("x@EVIL.west.example.com")
    for host in ("x@EVIL.west.example.com", "x\\@EVIL.west.example.com"):
        with pytest.raises(ValueError, match="not a server name"):
            ServerName.in_message(host, 16020, 1)


TWO = Kerberos(principal="w@EXAMPLE.COM", servers=("hbase/_HOST", "hb/_HOST"))


def principal_answer(principal: str) -> bytes:
    return answer(pb.SecurityPreamableResponse(server_principal=principal).SerializeToString())


def test_of_several_principals_the_server_says_which_it_has(credential, monkeypatch):
    asked = []
    monkeypatch.setattr(negotiation, "Context", lambda credential, principal: asked.append(principal) or FakeContext())
    _, sent = lead(principal_answer("hb/rs1.example.org@EXAMPLE.COM") + token(b"t") + token(offer("privacy")), TWO)
    assert asked == ["hb/rs1.example.org@EXAMPLE.COM"]
    assert sent[0] == b"Securi"


def test_a_server_that_claims_another_principal_is_not_talked_to(credential):
    with pytest.raises(WrongServerPrincipal, match=r"it says that it is evil/rs1@EXAMPLE\.COM") as caught:
        lead(principal_answer("evil/rs1@EXAMPLE.COM"), TWO)
    assert not caught.value.retry_helps


def test_a_server_that_has_no_principal_is_not_secured(credential):
    header = pb.ResponseHeader(call_id=0xFFFFFFFF)
    header.exception.exception_class_name = "org.apache.hadoop.hbase.ipc.SecurityNotEnabledException"
    with pytest.raises(NotSecured):
        lead(framed(delimited(header.SerializeToString())), TWO)


def fatal(text: str) -> bytes:
    """How a server refuses a connection that it cannot make sense of."""
    header = pb.ResponseHeader(call_id=0xFFFFFFFF)
    header.exception.exception_class_name = "org.apache.hadoop.hbase.ipc.FatalConnectionException"
    header.exception.stack_trace = f"FatalConnectionException: {text}"
    return framed(delimited(header.SerializeToString()))


def test_a_server_too_old_to_say_its_principal_leaves_those_to_be_tried(credential):
    with pytest.raises(PrincipalNotNamed, match=r"older than HBase 2\.6") as caught:
        lead(fatal("Expected HEADER=HBas but received HEADER=Secu from /10.0.0.1:1"), TWO)
    assert caught.value.candidates == ["hbase/rs1.example.org@EXAMPLE.COM", "hb/rs1.example.org@EXAMPLE.COM"]


def test_another_refusal_of_the_question_is_told_as_it_is(credential):
    with pytest.raises(RemoteError, match="Unknown service"):
        lead(fatal("Unknown service"), TWO)


def test_a_principal_that_is_known_is_not_asked_for(credential, monkeypatch):
    asked = []
    monkeypatch.setattr(negotiation, "Context", lambda credential, principal: asked.append(principal) or FakeContext())
    steps = kerberos(SERVER, TWO, MOST, "hb/rs1.example.org@EXAMPLE.COM")
    assert next(steps).call() == b"token"
    assert asked == ["hb/rs1.example.org@EXAMPLE.COM"]


@given(st.binary(max_size=80), st.sampled_from([LOGIN, TWO]))
def test_no_answer_of_any_kind_leads_to_an_untyped_error_or_to_a_connection(answers, login):
    credential = FakeCredential()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(negotiation, "credential_of", lambda login: credential)
        patch.setattr(negotiation, "Context", lambda credential, principal: FakeContext())
        with pytest.raises((WalferryError, EOFError, CodecError)):
            lead(answers, login)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000])
def test_a_refusal_in_place_of_the_first_response_is_found_however_it_is_cut(size):
    credential = FakeCredential()
    layer = LateRefusal(SERVER, PRINCIPAL, credential)

    def feed() -> None:
        for piece in cut(refusal("AccessControlException", "not you"), size):
            assert layer.incoming(piece) == b""

    with pytest.raises(SaslRefused, match="AccessControlException: not you"):
        feed()
    assert credential.forgotten == 1


@given(st.binary(min_size=4, max_size=60).filter(lambda data: data[:4] != b"\0\0\0\x01"), st.integers(1, 7))
def test_all_that_is_no_refusal_passes(data, size):
    layer = LateRefusal(SERVER, PRINCIPAL, FakeCredential())
    assert b"".join(layer.incoming(piece) for piece in cut(data, size)) == data


def test_only_the_first_response_can_be_a_refusal():
    layer = LateRefusal(SERVER, PRINCIPAL, FakeCredential())
    layer.incoming(framed(b"a response"))
    assert layer.incoming(refusal("C", "m")) == refusal("C", "m")


def test_a_huge_text_in_a_late_refusal_is_not_waited_for():
    layer: Callable[[bytes], bytes] = LateRefusal(SERVER, PRINCIPAL, FakeCredential()).incoming
    with pytest.raises((CodecError, KerberosError), match="a text of 1073741824 bytes"):
        layer(struct.pack(">ii", 1, 1 << 30))
