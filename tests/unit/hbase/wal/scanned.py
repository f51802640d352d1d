"""Scans single entries, sound or not."""

import numpy as np

from tests.unit.hbase.wal.encoder import PUT, Cell, encode_tags, encode_varint, entry
from walferry.hbase.wal.scan import EntryScan, scan_entries

PUT_CELL = Cell(b"row", b"f", b"q", 1, PUT, b"value")
TAGGED = Cell(b"row", b"f", b"q", 1, PUT, b"value", encode_tags([(8, b"12345678")]))


def scan(data: bytes, start: int = 0, end: int | None = None) -> EntryScan:
    return scan_entries(np.frombuffer(data, np.uint8), start, len(data) if end is None else end)


def key_bytes(**changes: object) -> bytes:
    key = entry(PUT_CELL).key
    for name, value in changes.items():
        if value is None:
            key.ClearField(name)
        else:
            setattr(key, name, value)
    return key.SerializePartialToString()


def with_key(key: bytes) -> bytes:
    return encode_varint(len(key)) + key + PUT_CELL.encode()
