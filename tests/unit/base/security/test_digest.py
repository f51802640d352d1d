"""SASL's DIGEST-MD5: bytes of RFC 2831's example and of ZooKeeper's servers, and servers that do not know the password."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.security import digest
from walferry.base.security.digest import DigestClient, DigestError

# RFC 2831, section 4
CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
CNONCE = "OA6MHXh6VqTrRk"
RESPONSE = b"d388dad90d4bbd760a152321f2143af7"
PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"
ZOOKEEPER = b'realm="zk-sasl-md5",nonce="pTqq8kQK2sCEXaMBa7qIIANfDyGxiWBVKpDz6xbO",charset=utf-8,algorithm=md5-sess'


@pytest.fixture(autouse=True)
def cnonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest.secrets, "token_hex", lambda _: CNONCE)


def chris() -> DigestClient:
    return DigestClient("chris", b"secret", "imap/elwood.innosoft.com")


def fields(answer: bytes) -> dict[bytes, bytes]:
    return dict(re.findall(rb'([\w-]+)=("(?:[^"\\]|\\.)*"|[^",]+)', answer))


def test_the_rfc_s_example_is_answered_with_its_response():
    client = chris()
    answer = fields(client.answer(CHALLENGE))
    assert answer[b"response"] == RESPONSE
    assert answer[b"username"] == b'"chris"'
    assert answer[b"cnonce"] == b'"OA6MHXh6VqTrRk"'
    assert (answer[b"nc"], answer[b"qop"], answer[b"charset"]) == (b"00000001", b"auth", b"utf-8")
    assert answer[b"digest-uri"] == b'"imap/elwood.innosoft.com"'
    assert not client.proved
    assert client.answer(PROOF) == b""
    assert client.proved


@pytest.mark.parametrize("proof", [b"rspauth=ea40f60335c427b5527b84dbabcdfffe", b"rspauth=ea40", b"", b"rspauth=\xff\xff"])
def test_a_server_that_does_not_know_the_password_is_not_believed(proof):
    client = chris()
    client.answer(CHALLENGE)
    with pytest.raises(DigestError, match="does not prove that it knows the password") as caught:
        client.answer(proof)
    assert not client.proved
    assert not caught.value.retry_helps


def test_a_challenge_without_a_qop_means_auth():
    assert fields(DigestClient("u", b"p", "zookeeper/zk-sasl-md5").answer(ZOOKEEPER))[b"realm"] == b'"zk-sasl-md5"'


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"", "has no nonce"),
        (b'realm="r",algorithm=md5-sess', "has no nonce"),
        (b'nonce="n"', "not for md5-sess"),
        (b'nonce="n",algorithm=md5', "not for md5-sess"),
        (b'nonce="n",algorithm=md5-sess,qop="auth-conf"', "does not offer qop auth, only auth-conf"),
        (b"nonce", "cannot be parsed"),
        (b'nonce="n', "cannot be parsed"),
        (b"nonce=n," * 300, "2400 bytes, where 2048 are allowed"),
    ],
)
def test_a_challenge_that_makes_no_sense_is_told(challenge, why):
    with pytest.raises(DigestError, match=why):
        chris().answer(challenge)


@given(st.binary(max_size=100))
def test_any_challenge_is_answered_or_refused(challenge):
    with contextlib.suppress(DigestError):
        DigestClient("u", b"p", "zookeeper/zk-sasl-md5").answer(challenge)


def test_what_stands_in_quotes_is_escaped():
    answer = DigestClient('a"b\\', b"p", "zookeeper/zk-sasl-md5").answer(b'realm="r\\"x",nonce="n",algorithm=md5-sess')
    assert rb'username="a\"b\\"' in answer
    assert rb'realm="r\"x"' in answer


def test_the_password_is_in_no_answer():
    assert b"secret" not in chris().answer(CHALLENGE)
