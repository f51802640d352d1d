import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.rpc.fake_server import delimited, framed
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc import codec
from walferry.hbase.rpc.codec import AuthMethod, CodecError, Failure, ResponseParser, Result
from walferry.hbase.rpc.errors import RequestTooLarge

call_ids = st.integers(0, 0xFFFFFFFF)


def response(call_id: int, message: bytes, cells: bytes = b"") -> bytes:
    header = pb.ResponseHeader(call_id=call_id)
    if cells:
        header.cell_block_meta.length = len(cells)
    return framed(delimited(header.SerializeToString()) + delimited(message) + cells)


def failure(call_id: int, class_name: str) -> bytes:
    header = pb.ResponseHeader(call_id=call_id)
    header.exception.exception_class_name = class_name
    return framed(delimited(header.SerializeToString()))


def test_a_connection_begins_as_hbase_expects():
    hello = codec.preamble() + codec.connection_header("AdminService", "hbase", codec.KEY_VALUE_CODEC_WITH_TAGS)
    assert hello[:6] == b"HBas\x00\x50"
    (length,) = struct.unpack(">i", hello[6:10])
    assert length == len(hello) - 10
    header = pb.ConnectionHeader.FromString(hello[10:])
    assert header.service_name == "AdminService"
    assert header.user_info.effective_user == "hbase"
    assert header.cell_block_codec_class == "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags"


def test_an_authenticated_connection_says_nothing_of_a_user_because_another_name_would_count_as_an_impersonation():
    header = pb.ConnectionHeader.FromString(codec.connection_header("AdminService", None)[4:])
    assert codec.preamble(AuthMethod.KERBEROS) == b"HBas\x00\x51"
    assert not header.HasField("user_info")


@given(
    call_ids, st.lists(st.binary(max_size=300), max_size=5), st.lists(st.binary(max_size=300), max_size=5), st.integers(0, 2**31)
)
def test_a_request_is_framed_with_its_lengths(call_id, param, cells, timeout_ms):
    frame = b"".join(codec.encode_request(call_id, "ReplicateWALEntry", param, cells, timeout_ms=timeout_ms))
    (total,) = struct.unpack(">i", frame[:4])
    assert total == len(frame) - 4
    header_length = frame[4]  # one byte: such a header is short
    header = pb.RequestHeader.FromString(frame[5 : 5 + header_length])
    assert (header.call_id, header.method_name, header.timeout) == (call_id, "ReplicateWALEntry", timeout_ms)
    assert header.request_param
    assert not header.HasField("priority")
    assert header.HasField("cell_block_meta") == bool(b"".join(cells))
    assert header.cell_block_meta.length == sum(map(len, cells))
    assert frame[5 + header_length :] == delimited(b"".join(param)) + b"".join(cells)


def test_big_parts_of_a_request_are_not_copied():
    param, cells = bytearray(1 << 20), memoryview(bytes(1 << 20))
    buffers = codec.encode_request(1, "M", param, [cells])
    assert buffers[1] is param
    assert buffers[2] is cells


def test_a_request_over_the_limit_is_refused_before_it_is_built():
    quarter = memoryview(bytes(64 << 20))
    with pytest.raises(
        RequestTooLarge, match=r"ReplicateWALEntry request of 268,435,457 bytes is over the 255,013,683 .*nothing was sent"
    ):
        codec.encode_request(1, "ReplicateWALEntry", b"x", [quarter] * 4)


@given(st.lists(st.tuples(call_ids, st.binary(max_size=300), st.binary(max_size=50)), max_size=8), st.data())
def test_responses_are_found_however_the_bytes_are_cut(responses, data):
    stream = b"".join(response(*r) for r in responses)
    parser, found, position = ResponseParser(), [], 0
    while position < len(stream):
        step = data.draw(st.integers(1, len(stream) - position))
        found += parser.feed(stream[position : position + step])
        position += step
    assert found == [Result(call_id, message, memoryview(cells)) for call_id, message, cells in responses]


def test_an_answers_cells_stay_where_they_were_received():
    stream, parser, spaces, answers = response(1, b"m", bytes(1000)), ResponseParser(), [], []
    while stream:
        spaces.append(parser.space)
        count = len(spaces[-1])
        spaces[-1][:] = stream[:count]
        stream = stream[count:]
        answers.append(parser.took(count))
    found = answers.pop()
    assert answers == [None] * len(answers)
    assert found.cells == bytes(1000)
    spaces[-1][-1] = 7
    assert found.cells[-1] == 7
    assert found.cells.readonly


def test_a_response_takes_little_memory_before_it_has_come():
    parser = ResponseParser()
    parser.feed(struct.pack(">i", codec.MAX_RESPONSE_BYTES))
    arrived = 0
    while parser.missing > len(parser.space):
        arrived += len(parser.space)
        parser.took(len(parser.space))
        assert arrived + len(parser.space) <= max(4 << 20, 2 * arrived)
    assert arrived + parser.missing == codec.MAX_RESPONSE_BYTES


def test_an_exception_comes_back_with_its_call():
    (found,) = ResponseParser().feed(failure(7, "java.io.IOException"))
    assert isinstance(found, Failure)
    assert (found.call_id, found.exception.exception_class_name) == (7, "java.io.IOException")


def test_an_exception_whose_name_is_not_text_is_refused():
    broken = failure(7, "java.io.IOException").replace(b"java.io", b"java\xffio")
    with pytest.raises(CodecError, match=r"response header at byte 5: .*exception_class_name is not UTF-8"):
        ResponseParser().feed(broken)


def test_an_exception_of_the_whole_connection_has_call_id_minus_one():
    (found,) = ResponseParser().feed(framed(delimited(b"\x08\xff\xff\xff\xff\x0f" + b"\x12\x00")))
    assert found.call_id == codec.NO_CALL


@pytest.mark.parametrize("total", [-1, 0, -(2**31), codec.MAX_RESPONSE_BYTES + 1, 2**31 - 1])
def test_an_impossible_response_length_is_refused_before_anything_is_kept(total):
    with pytest.raises(CodecError, match=f"a response of {total} bytes at byte 0"):
        ResponseParser().feed(struct.pack(">i", total))


def test_an_error_names_the_place_in_the_stream():
    good = response(1, b"abc")
    with pytest.raises(CodecError, match=f"a response of -5 bytes at byte {len(good)}"):
        ResponseParser().feed(good + struct.pack(">i", -5))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x05\x08\x01", "response header of 5 bytes at byte 5, but its frame has only 2 more"),
        (b"\xff\xff\xff\xff\xff\x01", "no length of the response header at byte 4"),
        (b"\x80", "no length of the response header at byte 4"),
        (b"\x02\x08\x01", "no length of the result at byte 7"),
        (b"\x02\x08\x01\x09abc", "result of 9 bytes at byte 8, but its frame has only 3 more"),
        (b"\x02\x08\x01\x01abc", "2 bytes follow the result at byte 9, but the header announces 0 of cells"),
        (b"\x02\xff\xff\x00", "response header at byte 5"),
    ],
)
def test_lengths_that_contradict_each_other_are_refused(body, message):
    with pytest.raises(CodecError, match=message):
        ResponseParser().feed(framed(body))


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_parser(data):
    with contextlib.suppress(CodecError):
        ResponseParser().feed(data)


@given(st.binary(max_size=200))
def test_no_frame_crashes_the_parser(body):
    try:
        responses = ResponseParser().feed(framed(body))
    except CodecError:
        return
    assert len(responses) == 1
