"""A server decodes the bytes of good and of hostile clients."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.rpc.fake_server import delimited, framed
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc import codec
from walferry.hbase.rpc.codec import NO_CALL, AuthMethod, Failure, ResponseParser, Result
from walferry.hbase.rpc.server_codec import CallRefused, JavaException, ReceivedCall, RequestParser, encode_refusal, encode_result

HELLO = codec.preamble() + codec.connection_header("S", "hbase", codec.KEY_VALUE_CODEC_WITH_TAGS)
PING = b"\xff\xff\xff\xff"
LIMIT = 100_000
WITH_PARAM = b"\x08\x01\x1a\x01M\x20\x01"


def parser() -> RequestParser:
    return RequestParser({"S"}, LIMIT)


def request(call_id: int, method: str, param: bytes, cells: bytes = b"") -> bytes:
    return b"".join(codec.encode_request(call_id, method, param, [cells]))


def refusal(data: bytes) -> CallRefused:
    with pytest.raises(CallRefused) as raised:
        list(parser().feed(data))
    return raised.value


requests = st.lists(st.tuples(st.integers(0, 0x7FFFFFFE), st.binary(max_size=300), st.binary(max_size=50)), max_size=6)


@given(requests, st.data())
def test_requests_are_found_however_the_bytes_are_cut(calls, data):
    stream = HELLO + b"".join(request(i, "M", param, cells) + PING for i, param, cells in calls)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    server, found = parser(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += server.feed(stream[start:end])
    assert found == [ReceivedCall(i, "M", param) for i, param, _ in calls]
    assert (server.service, server.user, server.held) == ("S", "hbase", 0)


@given(st.binary(max_size=400), st.sampled_from([b"", codec.preamble(), HELLO]))
def test_garbage_is_refused_or_waited_for_but_never_breaks_the_server(garbage, before):
    server = parser()
    with suppress(CallRefused):
        list(server.feed(before + garbage))
    assert server.held <= len(before + garbage)


@given(requests.filter(bool), st.data())
def test_a_changed_byte_is_refused_or_gives_other_requests(calls, data):
    stream = bytearray(HELLO + b"".join(request(i, "M", param, cells) for i, param, cells in calls))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] ^= data.draw(st.integers(1, 255))
    with suppress(CallRefused):
        assert all(isinstance(found, ReceivedCall) for found in parser().feed(stream))


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"GET / HTTP/1.1\r\n", JavaException.FATAL_CONNECTION, r"begins with b'HBas', not b'GET / '"),
        (b"HBas\x01\x50", JavaException.WRONG_VERSION, "version 1 of HBase RPC"),
        (b"HBas\x00" + bytes([AuthMethod.KERBEROS]), JavaException.BAD_AUTH, "authentication 0x51; only SIMPLE"),
        (codec.preamble() + PING, JavaException.FATAL_CONNECTION, "a frame of -1 bytes at byte 6"),
        (codec.preamble() + struct.pack(">i", 1 << 20), JavaException.FATAL_CONNECTION, "where 1 to 65536 are allowed"),
        (codec.preamble() + codec.connection_header("T", "u"), JavaException.UNKNOWN_SERVICE, "'T' is not served"),
        (codec.preamble() + framed(b"\xff" * 9), JavaException.FATAL_CONNECTION, "at byte 10"),
        (HELLO + struct.pack(">i", LIMIT + 1), JavaException.FATAL_CONNECTION, f"where 1 to {LIMIT} are allowed"),
        (HELLO + struct.pack(">i", 0), JavaException.FATAL_CONNECTION, "a frame of 0 bytes"),
        (HELLO + struct.pack(">i", -2), JavaException.FATAL_CONNECTION, "a frame of -2 bytes"),
        (HELLO + framed(b"\x80" * 9), JavaException.FATAL_CONNECTION, "no length of the request header"),
        (HELLO + framed(delimited(WITH_PARAM) + b"\x09x"), JavaException.FATAL_CONNECTION, "parameter of 9 bytes"),
        (HELLO + framed(delimited(b"\x08\x01\x1a\x01M") + b"xy"), JavaException.FATAL_CONNECTION, "2 bytes follow the parameter"),
    ],
)
def test_what_breaks_the_layout_is_refused_by_the_exception_that_hbase_sends(data, kind, words):
    refused = refusal(data)
    assert refused.kind is kind
    with pytest.raises(CallRefused, match=words):
        raise refused


def test_requests_before_broken_bytes_are_still_found():
    found = parser().feed(HELLO + request(1, "M", b"x") + framed(b"\x80" * 9))
    assert next(found) == ReceivedCall(1, "M", b"x")
    with pytest.raises(CallRefused):
        next(found)


def test_a_long_request_is_held_only_as_far_as_it_has_arrived():
    server = parser()
    assert list(server.feed(HELLO + struct.pack(">i", LIMIT))) == []
    assert server.held == 4


def test_our_own_client_reads_the_answers():
    answer = pb.GetProcedureResultResponse(state=pb.GetProcedureResultResponse.RUNNING)
    refused = CallRefused(JavaException.YOU_ARE_DEAD, "no\nmore", do_not_retry=True)
    stream = encode_result(7, answer) + encode_refusal(refused, 8) + encode_refusal(refused)
    result, failure, fatal = ResponseParser().feed(stream)
    assert isinstance(result, Result)
    assert (result.call_id, result.message, bytes(result.cells)) == (7, answer.SerializeToString(), b"")
    assert isinstance(failure, Failure)
    assert isinstance(fatal, Failure)
    assert (failure.call_id, fatal.call_id) == (8, NO_CALL)
    assert failure.exception.exception_class_name == "org.apache.hadoop.hbase.YouAreDeadException"
    assert failure.exception.stack_trace == "org.apache.hadoop.hbase.YouAreDeadException: no more"
    assert failure.exception.do_not_retry
