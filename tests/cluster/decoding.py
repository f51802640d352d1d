"""Compares cells of WALs that real HBase wrote, as Walferry decodes them and as HBase does."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from embedded import wire
from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.wire import Cell, CellType
from walferry.hbase.files.systems import open_wal
from walferry.hbase.wal.arrow import read_batches
from walferry.hbase.wal.cells import META_FAMILY
from walferry.hbase.wal.header import TAIL_BYTES, trailer_start

BIG_VALUE = bytes(range(256)) * 20_480  # 5 MiB
ALL_BYTES = bytes(range(256))


def write_all_kinds(client: JavaClient) -> None:
    client.create_table("decoded", {"f": GLOBAL, "g": LOCAL, "h": LOCAL}, versions=3)
    client.create_namespace("decoding")
    client.create_table("decoding:other", {"f": GLOBAL}, splits=[b"m"])
    edits = [
        wire.put("one", {"f:q": b"value"}),
        wire.put("many", {f"{family}:q{i}": b"v%d" % i for family in "fgh" for i in range(50)}),
        wire.put("empty", {"f:": b"", "g:q": b""}),
        wire.put(ALL_BYTES, {b"f:" + ALL_BYTES: ALL_BYTES}, timestamp=1),
        wire.put("big", {"f:q": BIG_VALUE}),
        wire.put("ttl", {"f:q": b"short-lived", "g:q": b"too"}, ttl_ms=86_400_000),
        wire.put("tagged", {"f:q": b"tagged"}, tags=[(70, b"one"), (71, b""), (72, ALL_BYTES)]),
        wire.increment("counter", {"f:n": 5, "g:n": -7}),
        wire.increment("counter", {"f:n": 1 << 40}),
        wire.append("appended", {"f:a": b"head"}),
        wire.append("appended", {"f:a": b"-tail", "h:a": b"\x00"}),
        wire.delete_row("one"),
        wire.delete_family("many", "g"),
        wire.delete_family_version("many", "h", 12345),
        wire.delete_column("many", "f:q1"),
        wire.delete_column("many", "f:q2", timestamp=99),
        wire.delete_version("many", "f:q3"),
        wire.delete_version("many", "f:q4", timestamp=77),
    ]
    client.write("decoded", edits, one_by_one=True)
    client.write("decoding:other", (wire.put(f"{c}{i:04}", {"f:q": b"%d" % i}) for i in range(500) for c in "az"))
    client.flush("decoding:other")  # markers


def is_closed(url: str) -> bool:
    """Return whether the WAL has a trailer, or has been archived since it was listed: HBase archives only closed WALs."""
    try:
        file = open_wal(url)
    except FileNotFoundError:
        return True
    with file:
        return trailer_start(bytes(file.read_at(max(0, file.size - TAIL_BYTES), TAIL_BYTES)), file.size) is not None


MASTERS = "$masterlocalwal$"  # ends the names of WALs of a Master's own store, which HBase moves to oldWALs, too


def copies_of_closed_wals(root: Path, folder: Path) -> list[str]:
    """Return URLs of copies of a cluster's closed WALs: HBase may archive or delete the files themselves at any moment."""
    folder.mkdir()
    copies = []
    for path in itertools.chain(root.glob("WALs/*/*"), root.glob("oldWALs/*")):
        with contextlib.suppress(FileNotFoundError):  # archived since it was listed: it is listed again
            if path.name.startswith((".", "dead")):  # from queues that tests make up, perhaps with broken WALs
                continue
            if path.name.endswith(MASTERS):
                continue
            copy = Path(shutil.copy(path, folder / path.name))
            if path.parent == root / "oldWALs" or is_closed(f"file://{copy}"):
                copies.append(f"file://{copy}")
    return sorted(set(copies))


def decode(url: str, **options: Any) -> list[dict[str, Any]]:
    with open_wal(url) as file:
        return [row for batch in read_batches(file, url, **options) for row in batch.to_pylist()]


def escaped(data: bytes) -> str:
    """Return the text of Bytes.toStringBinary. It differs for different bytes, because it escapes the backslash too."""
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02X}" for b in data)


def printed_tags(tags: bytes) -> list[str]:
    found, at = [], 0
    while at < len(tags):
        length = int.from_bytes(tags[at : at + 2])
        kind = int.from_bytes(tags[at + 2 : at + 3], signed=True)
        found.append(f"{kind}:{escaped(tags[at + 3 : at + 2 + length])}")
        at += 2 + length
    return found


def as_printed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of ours in the form of WALPrettyPrinter."""
    cell = {name: escaped(row[name]) for name in ("row", "family", "qualifier", "value")}
    cell |= {"timestamp": row["timestamp"], "type": row["type"], "vlen": len(row["value"]), "tag": printed_tags(row["tags"])}
    return {"table": row["table"], "region": row["region"], "sequence": row["sequence_id"], "position": row["next_offset"]} | cell


def compare_with_pretty_printer(client: JavaClient, urls: Iterable[str], **options: Any) -> list[dict[str, Any]]:
    """Check that our cells, read with `options`, are the cells that HBase's WALPrettyPrinter prints. Returns these."""
    printed = []
    for url in urls:
        cells = [
            {name: entry[name] for name in ("table", "region", "sequence", "position")}
            | {name: action[name] for name in ("row", "family", "qualifier", "value", "timestamp", "type", "vlen")}
            | {"tag": action.get("tag", [])}
            for entry in client.wal_pretty_print(url)
            for action in entry["actions"]
        ]
        assert [as_printed(row) for row in decode(url, **options)] == cells, url
        printed += cells
    return printed


INDEX_ENTRY = Cell(b"", META_FAMILY, b"", 0, CellType.PUT, b"", b"")  # as our reader gives each index entry of Phoenix


def is_index_entry(cell: Cell) -> bool:
    """Return whether a cell from HBase's reader is an index entry of Phoenix: one of METAFAMILY that is not HBase's marker."""
    return cell.family == META_FAMILY and not cell.qualifier.startswith(b"HBASE::")


def compare_with_reader(client: JavaClient, urls: Iterable[str], **options: Any) -> int:
    """Check that our keys, positions and cells, read with `options`, are HBase's reader's. Returns the number of cells.

    Of an index entry of Phoenix only the place is compared.
    """
    cells = 0
    for url in urls:
        expected = [
            {
                "region": entry.region.decode(),
                "table": entry.table,
                "sequence_id": entry.sequence_id,
                "write_time": entry.write_time,
                "cluster_ids": [str(uuid) for uuid in entry.cluster_ids],
                "row": cell.row,
                "family": cell.family,
                "qualifier": cell.qualifier,
                "timestamp": cell.timestamp,
                "value": cell.value,
                "tags": cell.tags,
                "next_offset": entry.end,
                "cell": number,
            }
            for entry in client.read_wal(url)
            for number, cell in enumerate(INDEX_ENTRY if is_index_entry(each) else each for each in entry.cells)
        ]
        found = [{name: row[name] for name in row.keys() - {"type", "key_offset"}} for row in decode(url, **options)]
        assert found == expected, url
        cells += len(expected)
    return cells


def count_index_entries(client: JavaClient, urls: Iterable[str]) -> int:
    """Return how many index entries of Phoenix HBase's reader finds."""
    return sum(is_index_entry(cell) for url in urls for entry in client.read_wal(url) for cell in entry.cells)
