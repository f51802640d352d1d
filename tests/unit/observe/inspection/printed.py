"""Printed forms of WALs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.unit.hbase.wal.encoder import Entry, encode_wal
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.strategies import rows
from walferry.hbase.binary_text import to_binary_text
from walferry.hbase.wal.reader import read_wal_batches
from walferry.observe.inspection.layouts import Layout, json_layout
from walferry.observe.inspection.printing import Printer
from walferry.observe.inspection.selection import Selection, select

URL = "file:///wals/host%2C16020%2C17.1700000000000"


def printed(entries: Iterable[Entry], selection: Selection, layout: Callable[..., Layout], **options: Any) -> str:
    """The text of a file with these entries."""
    printer, out = Printer(layout(URL, values=options.pop("values", True)), URL), b""
    for batch in read_wal_batches(MemoryFile(encode_wal(entries)), URL, 0, partial_tail="error", **options):
        out += b"".join(printer.print(batch, select(batch, selection)))
    return out.decode("ascii")


def printed_json(entries: Iterable[Entry], selection: Selection, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed(entries, selection, json_layout, **options).splitlines()]


def as_json(row: dict[str, Any]) -> dict[str, Any]:
    """The object of a cell, given as the row of a decoded file."""
    tags, at = [], 0
    while at < len(row["tags"]):
        end = at + 2 + int.from_bytes(row["tags"][at : at + 2])
        kind = int.from_bytes(row["tags"][at + 2 : at + 3], signed=True)
        tags.append(f"{kind}:{to_binary_text(row['tags'][at + 3 : end])}")
        at = end
    return {
        "wal": URL,
        "server": "host,16020,17",
        "position": row["key_offset"],
        "next_position": row["next_offset"],
        "table": to_binary_text(row["table"].encode()),
        "region": to_binary_text(row["region"].encode()),
        "sequence_id": row["sequence_id"],
        "write_time": row["write_time"],
        "cluster_ids": row["cluster_ids"],
        "row": to_binary_text(row["row"]),
        "family": to_binary_text(row["family"]),
        "qualifier": to_binary_text(row["qualifier"]),
        "timestamp": row["timestamp"],
        "type": row["type"],
        "tags": tags,
        "value_length": len(row["value"]),
        "value": to_binary_text(row["value"]),
    }


def expected_json(entries: Sequence[Entry], wanted: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[dict[str, Any]]:
    return [as_json(row) for row in rows(entries) if wanted(row)]
