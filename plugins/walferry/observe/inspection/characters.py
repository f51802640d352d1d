"""Writes numbers, times and bytes as printable ASCII. The caller makes sure that the buffer has room."""

from __future__ import annotations

from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.types import Bytes, OutBytes

NUMBER_CHARS: Final = 24  # enough for any int64 and for a time
QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_YEAR_10000: Final = 253_402_300_800_000


@inlined
def escaped_len(buf: Bytes, start: int, length: int, json: bool) -> int:
    """Return how many bytes `put_escaped` prints."""
    size, escape = length, 4 if json else 3
    for i in range(np.uint64(start), np.uint64(start + length)):
        byte = buf[i]
        if byte < 0x20 or byte > 0x7E or byte == _BACKSLASH:
            size += escape
        elif json and byte == QUOTE:
            size += 1
    return size


@inlined
def put_escaped(out: OutBytes, at: int, buf: Bytes, start: int, length: int, json: bool) -> int:
    """Print bytes like Bytes.toStringBinary; in JSON, with its backslashes and quotation marks escaped."""
    for i in range(np.uint64(start), np.uint64(start + length)):
        byte = int(buf[i])
        if byte < 0x20 or byte > 0x7E or byte == _BACKSLASH:
            if json:
                out[np.uint64(at)] = _BACKSLASH
                at += 1
            out[np.uint64(at)] = _BACKSLASH
            out[np.uint64(at + 1)] = 0x78
            out[np.uint64(at + 2)] = _hex_digit(byte >> 4)
            out[np.uint64(at + 3)] = _hex_digit(byte & 15)
            at += 4
        else:
            if json and byte == QUOTE:
                out[np.uint64(at)] = _BACKSLASH
                at += 1
            out[np.uint64(at)] = byte
            at += 1
    return at


@inlined
def _hex_digit(value: int) -> int:
    return value + (0x30 if value < 10 else 0x37)


@inlined
def put_number(out: OutBytes, at: int, value: int) -> int:
    """Print an int64. Returns the position after it."""
    rest = np.uint64(value)
    if value < 0:
        out[np.uint64(at)] = 0x2D
        at += 1
        rest = np.uint64(0) - rest
    digits = 1
    left = rest
    while left >= np.uint64(10):
        left //= np.uint64(10)
        digits += 1
    for i in range(digits - 1, -1, -1):
        out[np.uint64(at + i)] = np.uint8(np.uint64(0x30) + rest % np.uint64(10))
        rest //= np.uint64(10)
    return at + digits


@inlined
def _put_digits(out: OutBytes, at: int, value: int, digits: int) -> int:
    """Print a number that is not negative with leading zeros. Returns the position after it."""
    for i in range(digits - 1, -1, -1):
        out[np.uint64(at + i)] = 0x30 + value % 10
        value //= 10
    return at + digits


@inlined
def put_time(out: OutBytes, at: int, millis: int) -> int:
    """Print a time in ISO 8601 and UTC, or as a number if it is not between the years 1970 and 9999."""
    if millis < 0 or millis >= _YEAR_10000:
        return put_number(out, at, millis)
    seconds = millis // 1000
    year, month, day = _date(seconds // 86400)
    at = _put_digits(out, at, year, 4)
    for part, mark, digits in (
        (month, 0x2D, 2), (day, 0x2D, 2), (seconds % 86400 // 3600, 0x54, 2), (seconds % 3600 // 60, 0x3A, 2),
        (seconds % 60, 0x3A, 2), (millis % 1000, 0x2E, 3),
    ):  # fmt: skip
        out[np.uint64(at)] = mark
        at = _put_digits(out, at + 1, part, digits)
    out[np.uint64(at)] = 0x5A
    return at + 1


@inlined
def _date(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the day that lies `days` after 1970-01-01.

    The years are those that begin in March, so that a leap day ends its year. Four hundred of them have 146,097 days.
    """
    days += 719468  # since 0000-03-01
    of_era = days % 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153  # from March on
    day = of_year - (153 * month + 2) // 5 + 1
    january_or_february = month >= 10
    return year + days // 146097 * 400 + january_or_february, month - 9 if january_or_february else month + 3, day
