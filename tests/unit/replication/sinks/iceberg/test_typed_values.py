"""Values of clients and of Phoenix are read as they were written, and anything else is null."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.replication.peers.column_mappings import _SIZES, Coder, ValueType
from walferry.replication.sinks.iceberg.typed_values import FIRST_MS, LAST_MS, Spans, arrow_type, read_values

PRIMITIVE, PHOENIX = Coder.PRIMITIVE, Coder.PHOENIX
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT = Context(prec=200)
NANOS = timedelta(microseconds=123)  # of 123,999 nanoseconds
KINDS = [(coder, name) for coder in Coder for name in _SIZES[coder]]

times = st.integers(FIRST_MS, LAST_MS)
floats, doubles = st.floats(width=32, allow_nan=False), st.floats(allow_nan=False)
decimals = st.integers(-(10**18) + 1, 10**18 - 1).map(lambda number: EXACT.scaleb(Decimal(number), -4))


def read(coder: Coder, kind: str, *values: bytes) -> list[Any]:
    type_ = ValueType.parse(coder, kind)
    found = read_values(type_, Spans.of(pa.array(values, pa.binary())))
    found.validate(full=True)
    assert found.type == arrow_type(type_)
    made: list[Any] = found.to_pylist()
    return made


def integer(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def turned(data: bytes) -> bytes:
    return bytes([data[0] ^ 0x80]) + data[1:]


def big(kind: str) -> Callable[[Any], bytes]:
    return lambda value: struct.pack(f">{kind}", value)


def sortable(kind: str) -> Callable[[Any], bytes]:
    return lambda value: turned(struct.pack(f">{kind}", value))


def phoenix_float(kind: str, bits: int) -> Callable[[float], bytes]:
    """PFloat's and PDouble's encodeFloat and encodeDouble, with Java's arithmetic."""

    def encode(value: float) -> bytes:
        number = int.from_bytes(struct.pack(f">{kind}", value), signed=True)
        number = (number ^ ((number >> bits - 1) | -(1 << bits - 1))) + 1
        return (number & ((1 << bits) - 1)).to_bytes(bits // 8)

    return encode


def phoenix_decimal(value: Decimal) -> bytes:
    """PDataType.toBytes(BigDecimal), from what it says: digits of base 100, an exponent, and all turned if negative."""
    if not value:
        return b"\x80"
    sign, digits, scale = value.as_tuple()
    assert isinstance(scale, int)
    number = int("".join(map(str, digits))) * 10 ** (scale % 2)
    scale -= scale % 2
    pairs: list[int] = []
    while number:
        number, pair = divmod(number, 100)
        pairs.insert(0, pair)
    exponent = len(pairs) - 1 + scale // 2
    while pairs[-1] == 0:
        pairs.pop()
    if sign:
        return bytes([~(exponent + 65 + 128) & 0x7F, *(101 - pair for pair in pairs), 102])
    return bytes([(exponent + 65) | 0x80, *(pair + 1 for pair in pairs)])


def bytes_decimal(value: Decimal) -> bytes:
    """Bytes.toBytes(BigDecimal)."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return struct.pack(">i", -exponent) + number.to_bytes(number.bit_length() // 8 + 1, signed=True)


def time_of(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def day_of(ms: int) -> date:
    return time_of(ms).date()


@pytest.mark.parametrize(
    ("coder", "kind", "values", "write", "shown"),
    [
        (PRIMITIVE, "boolean", st.booleans(), lambda value: b"\xff" if value else b"\0", None),
        (PRIMITIVE, "tinyint", integer(8), big("b"), None),
        (PRIMITIVE, "smallint", integer(16), big("h"), None),
        (PRIMITIVE, "int", integer(32), big("i"), None),
        (PRIMITIVE, "bigint", integer(64), big("q"), None),
        (PRIMITIVE, "float", floats, big("f"), None),
        (PRIMITIVE, "double", doubles, big("d"), None),
        (PRIMITIVE, "date", times, big("q"), day_of),
        (PRIMITIVE, "timestamp", times, big("q"), time_of),
        (PRIMITIVE, "string", st.text(min_size=1), str.encode, None),
        (PRIMITIVE, "binary", st.binary(min_size=1), bytes, None),
        (PRIMITIVE, "decimal(18,4)", decimals, bytes_decimal, None),
        (PHOENIX, "boolean", st.booleans(), lambda value: b"\1" if value else b"\0", None),
        (PHOENIX, "tinyint", integer(8), sortable("b"), None),
        (PHOENIX, "smallint", integer(16), sortable("h"), None),
        (PHOENIX, "integer", integer(32), sortable("i"), None),
        (PHOENIX, "bigint", integer(64), sortable("q"), None),
        (PHOENIX, "unsigned_tinyint", st.integers(0, 127), big("b"), None),
        (PHOENIX, "unsigned_smallint", st.integers(0, (1 << 15) - 1), big("h"), None),
        (PHOENIX, "unsigned_int", st.integers(0, (1 << 31) - 1), big("i"), None),
        (PHOENIX, "unsigned_long", st.integers(0, (1 << 63) - 1), big("q"), None),
        (PHOENIX, "float", floats, phoenix_float("f", 32), None),
        (PHOENIX, "double", doubles, phoenix_float("d", 64), None),
        (PHOENIX, "unsigned_float", floats.map(abs), big("f"), None),
        (PHOENIX, "unsigned_double", doubles.map(abs), big("d"), None),
        (PHOENIX, "date", times, sortable("q"), day_of),
        (PHOENIX, "time", times, sortable("q"), time_of),
        (PHOENIX, "timestamp", times, lambda ms: sortable("q")(ms) + big("i")(123_999), lambda ms: time_of(ms) + NANOS),
        (PHOENIX, "unsigned_date", times.filter(lambda ms: ms >= 0), big("q"), day_of),
        (PHOENIX, "unsigned_time", times.filter(lambda ms: ms >= 0), big("q"), time_of),
        (PHOENIX, "unsigned_timestamp", times.filter(lambda ms: ms >= 0), lambda ms: big("q")(ms) + bytes(4), time_of),
        (PHOENIX, "varchar", st.text(min_size=1), str.encode, None),
        (PHOENIX, "char", st.text(min_size=1).map(lambda text: text.rstrip(" ") + "x"), lambda text: text.encode() + b"  ", None),
        (PHOENIX, "binary", st.binary(min_size=1), bytes, None),
        (PHOENIX, "varbinary", st.binary(min_size=1), bytes, None),
        (PHOENIX, "decimal(18,4)", decimals, phoenix_decimal, None),
    ],
)  # fmt: skip
@given(data=st.data())
def test_values_are_read_as_they_were_written(
    coder: Coder, kind: str, values: st.SearchStrategy[Any], write: Callable[[Any], bytes], shown: Any, data: st.DataObject
) -> None:
    written = data.draw(st.lists(values, max_size=5))
    assert read(coder, kind, *map(write, written)) == [shown(each) if shown else each for each in written]


@pytest.mark.parametrize(("coder", "name"), KINDS)
@given(values=st.lists(st.binary(max_size=14), max_size=5))
def test_any_bytes_are_a_value_or_null(coder: Coder, name: str, values: list[bytes]) -> None:
    found = read(coder, f"{name}(10,2)" if name == "decimal" else name, *values)
    assert [each for each, value in zip(found, values, strict=True) if not value] == [None] * values.count(b"")
    size = _SIZES[coder][name]
    assert all(each is None for each, value in zip(found, values, strict=True) if size not in (None, len(value)))


@pytest.mark.parametrize(
    ("coder", "kind", "value"),
    [
        (PRIMITIVE, "int", b"\0\0\1"),
        (PRIMITIVE, "int", b"\0\0\0\0\1"),
        (PRIMITIVE, "string", b"\xff"),
        (PRIMITIVE, "timestamp", struct.pack(">q", LAST_MS + 1)),
        (PRIMITIVE, "date", struct.pack(">q", FIRST_MS - 1)),
        (PRIMITIVE, "decimal(5,2)", bytes_decimal(Decimal("1000"))),
        (PRIMITIVE, "decimal(5,2)", bytes_decimal(Decimal("0.001"))),
        (PRIMITIVE, "decimal(38,2)", struct.pack(">i", -(1 << 31)) + b"\1"),
        (PRIMITIVE, "decimal(38,2)", bytes(4) + b"\x7f" * 1_000_000),
        (PRIMITIVE, "decimal(5,2)", b"\0\0\0\2"),
        (PHOENIX, "boolean", b"\2"),
        (PHOENIX, "unsigned_int", b"\xff\xff\xff\xff"),
        (PHOENIX, "timestamp", sortable("q")(0) + struct.pack(">i", 1_000_000)),
        (PHOENIX, "decimal(5,2)", b"\xc1\x70"),
        (PHOENIX, "decimal(5,2)", b"\xc1"),
        (PHOENIX, "varchar", b"\xc3"),
    ],
)
def test_what_is_not_written_so_is_null_beside_what_is(coder: Coder, kind: str, value: bytes) -> None:
    assert read(coder, kind, value) == [None]
    if kind in ("string", "varchar"):
        assert read(coder, kind, b"a", value, b"b") == ["a", None, "b"]


def test_numbers_that_are_none_are_read() -> None:
    (found,) = read(PRIMITIVE, "double", struct.pack(">d", math.nan))
    assert math.isnan(found)


def test_a_decimal_with_fewer_digits_than_its_column_gets_zeros() -> None:
    assert read(PRIMITIVE, "decimal(10,4)", bytes_decimal(Decimal("1.5"))) == [Decimal("1.5000")]
    assert read(PRIMITIVE, "decimal(10,0)", bytes_decimal(Decimal("1500e-2"))) == [Decimal("15")]


def test_values_may_be_a_part_of_a_buffer() -> None:
    values = pa.array([b"xx", b"\0\0\0\1", b"\0\0\0\2", b""], pa.binary()).slice(1, 2)
    assert read_values(ValueType.parse(PRIMITIVE, "int"), Spans.of(values)).to_pylist() == [1, 2]
