"""The two ends of a WAL file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import HEADER, TRAILER, encode_header
from walferry.base.protos.hbase_pb2 import WALHeader
from walferry.hbase.wal.errors import WalCorruptError, WalError, WalTruncatedError, WalUnsupportedError
from walferry.hbase.wal.header import TAIL_BYTES, ends_like_closed, is_partial_trailer, parse_header, trailer_start

PACKAGE = "org.apache.hadoop.hbase.regionserver.wal."


def header_like(**fields: object) -> bytes:
    header = WALHeader()
    header.CopyFrom(HEADER)
    for name, value in fields.items():
        setattr(header, name, value)
    return encode_header(header)


def test_the_first_entry_begins_where_the_header_ends() -> None:
    header = parse_header(encode_header() + b"anything", "wal")
    assert header.first_entry == len(encode_header())
    assert header.writer == "AsyncProtobufLogWriter"
    assert header.cell_codec == PACKAGE + "WALCellCodec"


def test_a_header_without_fields_means_a_plain_wal() -> None:
    assert parse_header(encode_header(WALHeader()), "wal").first_entry == 5


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"has_compression": True, "has_value_compression": True, "value_compression_algorithm": 5}, "number 5 of HBase's"),
        ({"cell_codec_cls_name": PACKAGE + "CodecOfOnesOwn"}, "CodecOfOnesOwn"),
        ({"writer_cls_name": "SequenceFileLogWriter"}, "SequenceFileLogWriter"),
    ],
)
def test_a_wal_of_another_kind_is_refused_and_the_error_says_which(fields: dict[str, object], what: str) -> None:
    with pytest.raises(WalUnsupportedError, match=what):
        parse_header(header_like(**fields), "wal")


def test_a_file_that_is_not_a_wal_is_refused() -> None:
    with pytest.raises(WalCorruptError, match="not a WAL"):
        parse_header(b"SEQ\x06...", "wal")


@pytest.mark.parametrize("length", range(len(encode_header())))
def test_a_header_cut_anywhere_is_truncated(length: int) -> None:
    with pytest.raises(WalTruncatedError) as e:
        parse_header(encode_header()[:length], "wal")
    assert length == e.value.have < e.value.need <= len(encode_header())


@pytest.mark.parametrize("length", [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\xff"])
def test_a_header_of_impossible_length_is_corrupt_and_not_waited_for(length: bytes) -> None:
    with pytest.raises(WalCorruptError):
        parse_header(b"PWAL" + length, "wal")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_an_error_of_ours(data: bytes) -> None:
    for head in (data, b"PWAL" + data):
        try:
            header = parse_header(head, "wal")
        except WalError:
            continue
        assert header.first_entry <= len(head)


def test_the_trailer_is_found_from_the_end_of_the_file() -> None:
    assert trailer_start(b"entries" + TRAILER, 1000) == 1000 - len(TRAILER)


def test_a_trailer_with_fields_of_a_later_release_is_found_too() -> None:
    tail = b"x" * 100 + (100).to_bytes(4) + b"LAWP"
    assert len(tail) <= TAIL_BYTES
    assert trailer_start(tail, 5000) == 5000 - len(tail)


def test_a_trailer_has_to_be_a_message() -> None:
    for message in (b"\0", b"no message", b"\x0a\x7f", b"\x0c"):
        assert trailer_start(b"x" * 50 + message + len(message).to_bytes(4) + b"LAWP", 5000) is None


def test_only_a_trailer_without_fields_ends_a_file_as_hbase_does() -> None:
    assert ends_like_closed(b"entries" + TRAILER, 1000)
    assert ends_like_closed(TRAILER, 13)
    assert not ends_like_closed(b"\x08\x01\0\0\0\2LAWP", 1000)
    assert not ends_like_closed(TRAILER, 12)
    assert not ends_like_closed(TRAILER[:-1], 1000)


@pytest.mark.parametrize("tail", [b"", b"LAWP", TRAILER[:-1], b"\xff\xff\xff\xffLAWP", b"\x7f\xff\xff\xffLAWP", b"\0\0\0\0LAWQ"])
def test_a_file_without_a_whole_trailer_has_no_trailer(tail: bytes) -> None:
    assert trailer_start(tail, len(tail)) is None


def test_only_a_beginning_of_a_trailer_is_a_partial_one() -> None:
    assert all(is_partial_trailer(TRAILER[:n]) for n in range(len(TRAILER)))
    assert not is_partial_trailer(TRAILER)
    assert not is_partial_trailer(b"\0\0\1")
