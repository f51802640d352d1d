"""SASL's GSSAPI: the strongest protection that both sides allow, never one that is too weak, and messages in wraps."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.base.security.fake_gssapi import FakeContext, offer, wrapped
from walferry.base.security.gssapi import KerberosError
from walferry.base.security.login import Protection
from walferry.base.security.sasl import GssapiClient, ProtectionRefused, Wraps

AUTHENTICATION, INTEGRITY, PRIVACY = Protection


def negotiated(least: Protection, *offered: str) -> tuple[GssapiClient, bytes]:
    client = GssapiClient(FakeContext(), "hbase/rs1@EXAMPLE.COM", least)
    assert client.first() == b"token"
    assert client.answer(b"server's token") == b""
    return client, client.answer(offer(*offered))


@pytest.mark.parametrize(
    ("least", "offered", "chosen"),
    [
        (AUTHENTICATION, ["authentication", "integrity", "privacy"], PRIVACY),
        (AUTHENTICATION, ["authentication", "integrity"], INTEGRITY),
        (AUTHENTICATION, ["authentication"], AUTHENTICATION),
        (INTEGRITY, ["authentication", "privacy"], PRIVACY),
    ],
)
def test_the_strongest_of_what_the_server_offers_is_taken(least, offered, chosen):
    client, answer = negotiated(least, *offered)
    assert client.protection is chosen
    assert answer[1] == {AUTHENTICATION: 1, INTEGRITY: 2, PRIVACY: 4}[chosen]


@pytest.mark.parametrize(
    ("least", "offered", "named"),
    [
        (INTEGRITY, ["authentication"], "offers authentication, but at least integrity is demanded"),
        (PRIVACY, ["authentication", "integrity"], "offers authentication and integrity, but at least privacy is demanded"),
        (AUTHENTICATION, [], "offers no protection that is known, but at least authentication is demanded"),
    ],
)
def test_a_server_that_offers_less_than_is_demanded_is_refused(least, offered, named):
    with pytest.raises(ProtectionRefused, match=named) as caught:
        negotiated(least, *offered)
    assert not caught.value.retry_helps


def test_an_offer_that_somebody_touched_is_refused():
    client = GssapiClient(FakeContext(steps=0), "hbase/rs1", AUTHENTICATION)
    client.first()
    with pytest.raises(KerberosError, match="not as it was sent"):
        client.answer(b"\x01\0\0\0")


@pytest.mark.parametrize("data", [b"", b"\x07", b"\x07\0\0\0\0"])
def test_an_offer_of_another_length_is_refused(data):
    client = GssapiClient(FakeContext(steps=0), "hbase/rs1", AUTHENTICATION)
    client.first()
    with pytest.raises(KerberosError, match="where there must be 4"):
        client.answer(wrapped(data))


def test_a_negotiation_that_has_ended_goes_on_no_more():
    client, _ = negotiated(AUTHENTICATION, "authentication")
    with pytest.raises(KerberosError, match="goes on with a negotiation that has ended"):
        client.answer(b"more")


def test_messages_are_as_long_as_the_server_takes_them():
    client = GssapiClient(FakeContext(steps=0), "hbase/rs1", INTEGRITY)
    client.first()
    client.answer(offer("integrity", limit=4096))
    assert client.max_token_bytes == 4096


@given(
    st.lists(st.binary(max_size=300), max_size=8),
    st.integers(2, 64),
    st.lists(st.integers(1, 40), max_size=40),
    st.sampled_from([INTEGRITY, PRIVACY]),
)
def test_what_goes_through_wraps_arrives_as_it_was(buffers, most, cuts, protection):
    """However the sender cuts its tokens, and the network its packets."""
    sender, receiver = (Wraps(FakeContext(), protection, most, most) for _ in range(2))
    sent = b"".join(sender.outgoing(buffers))
    found, at = b"", 0
    for cut in [*cuts, len(sent)]:
        found += receiver.incoming(sent[at : at + cut])
        at += cut
    assert found == b"".join(buffers)


@pytest.mark.parametrize("size", [0, -1, -(2**31), 101, 2**31 - 1])
def test_a_wrap_of_an_impossible_length_is_refused_before_it_is_waited_for(size):
    wraps = Wraps(FakeContext(), INTEGRITY, 100, 100)
    with pytest.raises(KerberosError, match="where 1 to 100 are allowed"):
        wraps.incoming(struct.pack(">i", size))


def test_with_privacy_a_message_that_is_only_signed_is_refused():
    wraps = Wraps(FakeContext(), PRIVACY, 100, 100)
    with pytest.raises(KerberosError, match="not encrypted"):
        wraps.incoming(struct.pack(">i", 6) + wrapped(b"plain"))
