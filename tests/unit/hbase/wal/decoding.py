"""Decodes files to rows."""

from typing import Any

from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.wal.arrow import SCHEMA, read_batches
from walferry.hbase.wal.errors import WalError


def decode_until_error(data: bytes, position: int = 0, **options: Any) -> tuple[list[dict[str, Any]], WalError | None]:
    found: list[dict[str, Any]] = []
    try:
        for batch in read_batches(MemoryFile(data), "wal", position, **options):
            batch.validate(full=True)
            assert batch.schema.equals(SCHEMA)
            assert batch.num_rows
            found += batch.to_pylist()
    except WalError as e:
        return found, e
    return found, None


def decode(data: bytes, position: int = 0, **options: Any) -> list[dict[str, Any]]:
    found, error = decode_until_error(data, position, **options)
    assert error is None
    return found
