"""Walferry decodes WALs of a real HBase as HBase does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded import wire
from embedded.client import JavaClient
from embedded.hbase import ClusterAddress
from embedded.standalone import StandaloneCluster
from tests.cluster.decoding import (
    ALL_BYTES,
    BIG_VALUE,
    compare_with_pretty_printer,
    compare_with_reader,
    decode,
    escaped,
    is_closed,
    write_all_kinds,
)
from walferry.cli.main import main
from walferry.hbase.files.systems import open_wal
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.errors import WalPositionError
from walferry.hbase.wal.reader import read_wal_batches


@pytest.fixture(scope="module")
def cluster(cluster_folder: Path) -> Iterator[StandaloneCluster]:
    """This module's own cluster, because only a server's stop closes hbase:meta's WAL."""
    with StandaloneCluster(cluster_folder / "decoded", name="decoded") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: StandaloneCluster, java_client: Callable[[ClusterAddress], JavaClient]) -> JavaClient:
    return java_client(cluster.address)


@pytest.fixture(scope="module")
def wals(cluster: StandaloneCluster, client: JavaClient) -> list[str]:
    """Return URLs of closed WALs with all kinds of edits in several tables and families, and of hbase:meta's."""
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


def test_decoded_cells_are_those_that_hbase_s_wal_pretty_printer_prints(client: JavaClient, wals: list[str]) -> None:
    printed = compare_with_pretty_printer(client, wals)
    assert {cell["type"] for cell in printed} == {"Put", "Delete", "DeleteFamilyVersion", "DeleteColumn", "DeleteFamily"}
    assert {cell["table"] for cell in printed} >= {"decoded", "decoding:other", "hbase:meta"}
    assert {cell["family"] for cell in printed if cell["table"] == "decoded"} >= {"f", "g", "h"}
    assert max(cell["vlen"] for cell in printed) == len(BIG_VALUE)
    assert any(tag.startswith("8:") for cell in printed for tag in cell["tag"])  # 8 is the type of a TTL's tag
    assert sum(cell["row"] == "counter" for cell in printed) == 3
    assert [cell["value"] for cell in printed if cell["row"] == "appended"] == ["head", "head-tail", "\\x00"]
    assert any(cell["family"] == "METAFAMILY" and cell["qualifier"] == "HBASE::FLUSH" for cell in printed)


def test_keys_positions_and_bytes_are_those_of_hbase_s_wal_reader(client: JavaClient, wals: list[str]) -> None:
    assert compare_with_reader(client, wals) > 1000


def test_batches_and_batches_of_any_size_give_the_same_cells(wals: list[str]) -> None:
    for url in wals:
        assert decode(url, wal_batch_bytes=1000, batch_bytes=1000) == decode(url)


def test_wal_show_prints_what_hbase_s_wal_pretty_printer_prints(
    client: JavaClient, wals: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    names = ("row", "family", "qualifier", "timestamp", "type", "value")
    for url in wals:
        entries = client.wal_pretty_print(url)
        expected = [
            {name: entry[name] for name in ("table", "region")}
            | {"sequence_id": entry["sequence"], "next_position": entry["position"]}
            | {name: action[name] for name in names}
            | {"value_length": action["vlen"], "tags": action.get("tag", []), "wal": url}
            for entry in entries
            for action in entry["actions"]
        ]
        assert main(["wal", "show", "--json", "--values", url]) == 0
        found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        assert [{name: cell[name] for name in expected[0]} for cell in found] == expected


def test_wal_find_finds_each_row_as_hbase_s_wal_pretty_printer_shows_it(
    cluster: StandaloneCluster, client: JavaClient, wals: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    written = [(url, entry) for url in wals for entry in client.wal_pretty_print(url)]
    for row in ("one", escaped(ALL_BYTES), "z0499", "no such row"):
        expected = [
            (url, entry["position"], action["qualifier"], action["timestamp"])
            for url, entry in written
            for action in entry["actions"]
            if action["row"] == row
        ]
        assert main(["wal", "find", "--json", "--row", row, cluster.address.wal_root]) == 0
        found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        cells = [(cell["wal"], cell["next_position"], cell["qualifier"], cell["timestamp"]) for cell in found]
        assert sorted(cells) == sorted(expected)
        assert bool(cells) == (row != "no such row")
        assert {cell["server"] for cell in found} <= {str(parse_wal_name(url.rpartition("/")[2]).server) for url in wals}


def test_reading_goes_on_from_every_position_that_hbase_could_have_registered(wals: list[str]) -> None:
    url = max(wals, key=lambda wal: os.path.getsize(wal.removeprefix("file://")))
    rows = decode(url)
    for position in sorted({row["next_offset"] for row in rows}):
        with open_wal(url) as file:
            first = next(read_wal_batches(file, url, position, wal_batch_bytes=4096, partial_tail="error"), None)
        following = next((row["key_offset"] for row in rows if row["key_offset"] >= position), None)
        assert (first and int(first.positions[0])) == following
        if following is not None:
            with open_wal(url) as file, pytest.raises(WalPositionError):
                next(read_wal_batches(file, url, position + 1, partial_tail="error"))
