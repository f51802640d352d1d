"""Reads values as HBase's clients and Apache Phoenix write them. All numbers are big-endian.

PrimitiveType: HBase's Bytes.toBytes

    boolean     byte                    0: false
    tinyint, smallint, int, bigint      two's complement of 1, 2, 4, 8 bytes
    float, double                       IEEE 754
    date, timestamp                     bigint: milliseconds since 1970
    string      UTF-8
    decimal     int scale | two's complement of the unscaled number

Phoenix: the subclasses of org.apache.phoenix.schema.types.PDataType, ascending

    boolean     byte                    0 or 1
    tinyint, smallint, integer, bigint  two's complement with its first bit turned
    float, double                       the bits of IEEE 754, the first bit turned if positive, else all bits; plus 1
    unsigned_…                          as PrimitiveType has them, not negative
    date, time                          bigint: milliseconds since 1970
    timestamp   date | int nanoseconds  within the millisecond
    varchar     UTF-8
    char        UTF-8, filled up with blanks
    decimal     byte 0x80                                       zero
              | byte 0x80 + 65 + exponent { byte 1 + digit }    positive; digits are those of base 100
              | byte 0x7F - 65 - exponent { byte 101 - digit } [ byte 102 ]

A value that is empty, or is not written so, is null here. HBase knows no types, so any value may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from walferry.base.kernels.types import Ints
from walferry.replication.peers.column_mappings import Coder, ValueType

Bools = npt.NDArray[np.bool_]
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # of the years 1 to 9999, which engines read
DAY_MS = 86_400_000
MOST_DECIMAL_BYTES = 64  # of a decimal: larger ones do not fit into 38 digits, unless they have many zeros
MOST_SHIFT = 100  # by which a decimal's scale may differ from its column's
_TURNED_BIT = 0x80
_ZERO, _END_OF_NEGATIVE = 0x80, 102


@dataclass(frozen=True)
class Spans:
    """Values in a buffer, one behind the other: each one's first byte, and the one behind its last."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    ends: Ints
    values: pa.Array | None = None  # the same, if it is there

    @classmethod
    def of(cls, values: pa.Array) -> Spans:
        """Return where the values of an array of binary lie."""
        _, offsets, data = values.buffers()
        borders = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        first, last = (int(borders[0]), int(borders[-1])) if len(borders) else (0, 0)
        whole = np.frombuffer(data, np.uint8)[first:last] if data is not None else np.zeros(0, np.uint8)
        return cls(whole, borders[:-1] - first, borders[1:] - first, values)

    def of_each(self, starts: Ints, ends: Ints) -> Spans:
        """Return a part of each value."""
        return Spans(self.data, starts, ends)

    def zeros(self) -> Ints:
        """Return where bytes 0 are."""
        return np.flatnonzero(self.data == 0)

    def __len__(self) -> int:
        return len(self.starts)

    def having(self, size: int) -> tuple[Bools, npt.NDArray[np.uint8]]:
        """Return which values have `size` bytes, and those of each one; zeros for the others."""
        fit = self.ends - self.starts == size
        found = np.zeros((len(self), size), np.uint8)
        if size:
            found[fit] = self.data[self.starts[fit, None] + np.arange(size)]
        return fit, found

    def as_array(self) -> pa.Array:
        """Return the values as an array of binary."""
        if self.values is not None:
            return self.values
        inside = np.zeros(len(self.data) + 1, np.int8)  # 1 where a value begins, -1 behind one
        np.add.at(inside, self.starts, 1)
        np.add.at(inside, self.ends, -1)
        wanted = np.cumsum(inside[:-1], dtype=np.int8).astype(np.bool_)
        borders = np.concatenate([[0], np.cumsum(self.ends - self.starts)]).astype(np.int32)
        buffers = [None, pa.py_buffer(borders.tobytes()), pa.py_buffer(self.data[wanted].tobytes())]
        return pa.BinaryArray.from_buffers(pa.binary(), len(self), buffers)


def arrow_type(type_: ValueType) -> pa.DataType:
    """Return the type of a typed column."""
    if type_.name == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.name.removeprefix("unsigned_")]


def read_values(type_: ValueType, spans: Spans) -> pa.Array:
    """Return values of a type; null for those that are empty, or not written so."""
    found: pa.Array = _READERS[type_.coder][type_.name](type_, spans)
    return found


def _numbers(kind: str, turned: bool, positive: bool, type_: ValueType, spans: Spans) -> pa.Array:
    fit, found = spans.having(np.dtype(kind).itemsize)
    if turned:
        found[:, 0] ^= _TURNED_BIT
    numbers = found.view(kind)[:, 0]
    if positive:
        fit &= numbers >= 0
    return pa.array(numbers.astype(numbers.dtype.newbyteorder("=")), mask=~fit).cast(arrow_type(type_), safe=False)


def _sortable_floats(integers: str, floats: str, type_: ValueType, spans: Spans) -> pa.Array:
    """Read floats whose bytes have their order."""
    bits = np.dtype(integers).itemsize * 8
    fit, found = spans.having(bits // 8)
    numbers = found.view(f">{integers}")[:, 0].astype(integers) - 1  # wraps, as Java's does
    numbers ^= (~numbers >> (bits - 1)) | np.array(-(1 << (bits - 1)), integers)
    return pa.array(numbers.view(floats), mask=~fit)


def _booleans(only_0_and_1: bool, type_: ValueType, spans: Spans) -> pa.Array:
    fit, found = spans.having(1)
    if only_0_and_1:
        fit &= found[:, 0] <= 1
    return pa.array(found[:, 0] != 0, mask=~fit)


def _times(turned: bool, type_: ValueType, spans: Spans) -> pa.Array:
    fit, found = spans.having(type_.size or 0)
    if turned:
        found[:, 0] ^= _TURNED_BIT
    ms = np.ascontiguousarray(found[:, :8]).view(">i8")[:, 0].astype(np.int64)
    fit &= (ms >= FIRST_MS) & (ms <= LAST_MS)
    ms = np.where(fit, ms, 0)
    if type_.name.removeprefix("unsigned_") == "date":
        return pa.array(np.floor_divide(ms, DAY_MS).astype(np.int32), mask=~fit).cast(pa.date32())
    micros = ms * 1000
    if type_.size == 12:
        nanos = np.ascontiguousarray(found[:, 8:]).view(">i4")[:, 0].astype(np.int64)
        fit &= (nanos >= 0) & (nanos < 1_000_000)
        micros += np.where(fit, nanos, 0) // 1000
    return pa.array(micros, mask=~fit).cast(pa.timestamp("us", "UTC"))


def _bytes(type_: ValueType, spans: Spans) -> pa.Array:
    lengths = spans.ends - spans.starts
    fit = lengths > 0 if type_.size is None else lengths == type_.size
    return pc.if_else(pa.array(fit), spans.as_array(), pa.scalar(None, pa.binary()))


def _texts(type_: ValueType, spans: Spans) -> pa.Array:
    found = _bytes(type_, spans)
    try:
        texts = found.cast(pa.string())
    except pa.ArrowInvalid:  # some are not UTF-8
        texts = pa.array([_text(value) for value in found.to_pylist()], pa.string())
    return pc.utf8_rtrim(texts, " ") if type_.name == "char" else texts


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _decimals(read: Callable[[bytes], tuple[int, int]], type_: ValueType, spans: Spans) -> pa.Array:
    """Read decimals. `read` returns the unscaled number and the scale of one. Raises ValueError."""
    most, lengths = 10**type_.precision, spans.ends - spans.starts
    possible = (lengths > 0) & (lengths <= MOST_DECIMAL_BYTES) if type_.size is None else lengths == type_.size
    found, fit = bytearray(16 * len(spans)), np.zeros(len(spans), np.bool_)
    for place in np.flatnonzero(possible & (lengths <= MOST_DECIMAL_BYTES)).tolist():
        try:
            number = _scaled(*read(spans.data[spans.starts[place] : spans.ends[place]].tobytes()), type_.scale)
        except ValueError:
            continue
        if abs(number) < most:
            fit[place] = True
            found[16 * place : 16 * place + 16] = number.to_bytes(16, "little", signed=True)
    validity = pa.py_buffer(np.packbits(fit, bitorder="little").tobytes())
    return pa.Array.from_buffers(arrow_type(type_), len(spans), [validity, pa.py_buffer(bytes(found))])


def _scaled(number: int, scale: int, wanted: int) -> int:
    """Return the unscaled number of a decimal at another scale. Raises ValueError if it is not the same then."""
    if not number:
        return 0
    if abs(wanted - scale) > MOST_SHIFT:
        raise ValueError(f"its scale is {scale}")
    if wanted >= scale:
        return int(number * 10 ** (wanted - scale))
    scaled, rest = divmod(number, 10 ** (scale - wanted))
    if rest:
        raise ValueError(f"it has more than {wanted} digits behind the point")
    return int(scaled)


def _primitive_decimal(value: bytes) -> tuple[int, int]:
    if len(value) < 5:
        raise ValueError("it has no number")
    return int.from_bytes(value[4:], signed=True), int.from_bytes(value[:4], signed=True)


def _phoenix_decimal(value: bytes) -> tuple[int, int]:
    if value == bytes([_ZERO]):
        return 0, 0
    positive = value[0] & 0x80 != 0
    exponent = (value[0] & 0x7F) - 65 if positive else (~value[0] & 0x7F) - 65
    digits = value[1:] if positive or value[-1] != _END_OF_NEGATIVE else value[1:-1]
    number = 0
    for byte in digits:
        digit = byte - 1 if positive else 101 - byte
        if not 0 <= digit < 100:
            raise ValueError(f"{digit} is no digit of base 100")
        number = number * 100 + digit
    if not digits:
        raise ValueError("it has no digits")
    return number if positive else -number, 2 * (len(digits) - 1 - exponent)


_ARROW = {
    "boolean": pa.bool_(), "tinyint": pa.int32(), "smallint": pa.int32(), "int": pa.int32(), "integer": pa.int32(),
    "bigint": pa.int64(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "date": pa.date32(),
    "time": pa.timestamp("us", "UTC"), "timestamp": pa.timestamp("us", "UTC"), "string": pa.string(), "varchar": pa.string(),
    "char": pa.string(), "binary": pa.binary(), "varbinary": pa.binary(),
}  # fmt: skip

_Reader = Callable[[ValueType, Spans], Any]
_KINDS = {"tinyint": ">i1", "smallint": ">i2", "int": ">i4", "bigint": ">i8", "float": ">f4", "double": ">f8"}
_PHOENIX_NAMES = {"int": "integer"}  # the others are the same
_UNSIGNED_NAMES = {"bigint": "long"}
_READERS: Mapping[Coder, Mapping[str, _Reader]] = {
    Coder.PRIMITIVE: {
        **{name: partial(_numbers, kind, False, False) for name, kind in _KINDS.items()},
        "boolean": partial(_booleans, False), "date": partial(_times, False), "timestamp": partial(_times, False),
        "string": _texts, "binary": _bytes, "decimal": partial(_decimals, _primitive_decimal),
    },
    Coder.PHOENIX: {
        **{_PHOENIX_NAMES.get(name, name): partial(_numbers, kind, True, False) for name, kind in _KINDS.items() if "i" in kind},
        **{f"unsigned_{_UNSIGNED_NAMES.get(name, name)}": partial(_numbers, kind, False, True) for name, kind in _KINDS.items()},
        "float": partial(_sortable_floats, "i4", "f4"), "double": partial(_sortable_floats, "i8", "f8"),
        "boolean": partial(_booleans, True),
        **{name: partial(_times, True) for name in ("date", "time", "timestamp")},
        **{f"unsigned_{name}": partial(_times, False) for name in ("date", "time", "timestamp")},
        "varchar": _texts, "char": _texts, "binary": _bytes, "varbinary": _bytes, "decimal": partial(_decimals, _phoenix_decimal),
    },
}  # fmt: skip
