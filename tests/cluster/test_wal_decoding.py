"""WALs written by real HBase, decoded by us and by HBase."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded import wire
from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.standalone import StandaloneCluster
from walferry.storage import open_wal
from walferry.wal.arrow import read_batches
from walferry.wal.errors import WalPositionError
from walferry.wal.header import TAIL_BYTES, trailer_start
from walferry.wal.names import parse_wal_name
from walferry.wal.reader import read_windows

BIG_VALUE = bytes(range(256)) * 20_480  # 5 MiB
ALL_BYTES = bytes(range(256))


@pytest.fixture(scope="module")
def cluster(cluster_folder: Path) -> Iterator[StandaloneCluster]:
    """A cluster of this module's own: only the stop of a server closes hbase:meta's WAL."""
    with StandaloneCluster(cluster_folder / "decoded", name="decoded") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: StandaloneCluster, java_client: Callable[[ClusterAddress], JavaClient]) -> JavaClient:
    return java_client(cluster.address)


@pytest.fixture(scope="module")
def wals(cluster: StandaloneCluster, client: JavaClient) -> list[str]:
    """URLs of closed WALs that hold all kinds of edits in several tables and families, and hbase:meta's."""
    write_all_kinds(client)
    client.roll_wals()
    client.write("decoded", [wire.put("after the roll", {"f:q": b"value"})])
    cluster.stop()
    root = Path(cluster.address.wal_root.removeprefix("file://"))
    urls = [f"file://{path}" for path in [*root.glob("WALs/*/*"), *root.glob("oldWALs/*")] if not path.name.startswith(".")]
    names = [parse_wal_name(url.rpartition("/")[2]) for url in urls]
    assert any(name.is_meta for name in names)
    assert len(names) > 2
    assert all(is_closed(url) for url in urls)
    return urls


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
    with open_wal(url) as file:
        return trailer_start(bytes(file.read_at(max(0, file.size - TAIL_BYTES), TAIL_BYTES)), file.size) is not None


def decode(url: str, **options: Any) -> list[dict[str, Any]]:
    with open_wal(url) as file:
        return [row for batch in read_batches(file, url, **options) for row in batch.to_pylist()]


def escaped(data: bytes) -> str:
    """As Bytes.toStringBinary, which never gives one text for two byte strings: it escapes the backslash too."""
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
    """A row of ours in WALPrettyPrinter's words."""
    cell = {name: escaped(row[name]) for name in ("row", "family", "qualifier", "value")}
    cell |= {"timestamp": row["timestamp"], "type": row["type"], "vlen": len(row["value"]), "tag": printed_tags(row["tags"])}
    return {"table": row["table"], "region": row["region"], "sequence": row["sequence_id"], "position": row["next_offset"]} | cell


def test_decoded_cells_are_those_that_hbase_s_wal_pretty_printer_prints(client: JavaClient, wals: list[str]) -> None:
    printed = []
    for url in wals:
        cells = [
            {name: entry[name] for name in ("table", "region", "sequence", "position")}
            | {name: action[name] for name in ("row", "family", "qualifier", "value", "timestamp", "type", "vlen")}
            | {"tag": action.get("tag", [])}
            for entry in client.wal_pretty_print(url)
            for action in entry["actions"]
        ]
        assert [as_printed(row) for row in decode(url)] == cells, url
        printed += cells
    assert {cell["type"] for cell in printed} == {"Put", "Delete", "DeleteFamilyVersion", "DeleteColumn", "DeleteFamily"}
    assert {cell["table"] for cell in printed} >= {"decoded", "decoding:other", "hbase:meta"}
    assert {cell["family"] for cell in printed if cell["table"] == "decoded"} >= {"f", "g", "h"}
    assert max(cell["vlen"] for cell in printed) == len(BIG_VALUE)
    assert any(tag.startswith("8:") for cell in printed for tag in cell["tag"])  # 8 is the type of a TTL's tag
    assert sum(cell["row"] == "counter" for cell in printed) == 3
    assert [cell["value"] for cell in printed if cell["row"] == "appended"] == ["head", "head-tail", "\\x00"]
    assert any(cell["family"] == "METAFAMILY" and cell["qualifier"] == "HBASE::FLUSH" for cell in printed)


def test_keys_positions_and_bytes_are_those_of_hbase_s_wal_reader(client: JavaClient, wals: list[str]) -> None:
    for url in wals:
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
            }
            for entry in client.read_wal(url)
            for cell in entry.cells
        ]
        found = [{name: row[name] for name in row.keys() - {"type", "key_offset"}} for row in decode(url)]
        assert found == expected, url


def test_windows_and_batches_of_any_size_give_the_same_cells(wals: list[str]) -> None:
    for url in wals:
        assert decode(url, window_bytes=1000, batch_bytes=1000) == decode(url)


def test_reading_goes_on_from_every_position_that_hbase_could_have_registered(wals: list[str]) -> None:
    url = max(wals, key=lambda wal: os.path.getsize(wal.removeprefix("file://")))
    rows = decode(url)
    for position in sorted({row["next_offset"] for row in rows}):
        with open_wal(url) as file:
            first = next(read_windows(file, url, position, window_bytes=4096, partial_tail="error"), None)
        following = next((row["key_offset"] for row in rows if row["key_offset"] >= position), None)
        assert (first and int(first.positions[0])) == following
        if following is not None:
            with open_wal(url) as file, pytest.raises(WalPositionError):
                next(read_windows(file, url, position + 1, partial_tail="error"))
