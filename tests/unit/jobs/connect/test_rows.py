"""Rows of a server are text in one column, not too many, and nothing that points outside of what was sent."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from walferry.jobs.connect.errors import ConnectFailed
from walferry.jobs.connect.rows import MAX_STREAM_BYTES, MAX_TEXT_CHARS, texts


def stream(*values: Any, name: str = "summary", kind: pa.DataType | None = None) -> bytes:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind or pa.string())], [name])
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue().to_pybytes())


def read(*streams: bytes, max_rows: int = 3) -> list[str]:
    return list(texts("h:1", streams, "summary", max_rows))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_rows_are_read_in_the_order_in_which_they_come(kind: pa.DataType) -> None:
    assert read(stream("a", "b", kind=kind), stream(kind=kind), stream("", kind=kind)) == ["a", "b", ""]


def test_offsets_that_point_outside_of_the_rows_are_not_followed() -> None:
    raw = bytearray(stream("ABCDEFGH"))
    at = raw.rfind(struct.pack("<ii", 0, 8))
    for start, end in ((0, 2_000_000_000), (-5, 8), (8, 0)):
        raw[at : at + 8] = struct.pack("<ii", start, end)
        with pytest.raises(ConnectFailed, match="Spark Connect server h:1 sent rows that cannot be read"):
            read(bytes(raw))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"", "cannot be read"),
        (b"garbage", "cannot be read"),
        (stream("a")[:-100], "cannot be read"),
        (stream("a", None), "a row is null"),
        (stream(1, kind=pa.int64()), "one column 'summary' of text"),
        (stream("a", name="other"), "one column 'summary' of text"),
        (stream(b"\xff", kind=pa.binary()), "one column 'summary' of text"),
        (stream("x" * (MAX_TEXT_CHARS + 1)), "more than 1048576 characters"),
        (stream("x" * MAX_STREAM_BYTES), "bytes at once"),
        (stream("a", "b", "c", "d"), "more than were asked for"),
    ],
)
def test_what_is_not_such_rows_is_told(sent: bytes, why: str) -> None:
    with pytest.raises(ConnectFailed, match=why) as failed:
        read(sent)
    assert str(failed.value).isprintable()


def test_rows_are_counted_over_all_streams() -> None:
    assert len(read(*[stream("a")] * 3)) == 3
    with pytest.raises(ConnectFailed, match="more than were asked for"):
        read(*[stream("a")] * 4)
