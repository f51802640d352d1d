"""Typed columns of a lake have what clients have written by HBase's Bytes, and what Phoenix has written by SQL."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from demo.lake import CATALOG, settings
from embedded.wire import put
from tests.cluster.feeds import Fed, lake, unfed, walferry
from tests.cluster.phoenix_pair import Phoenix, phoenix_pair
from tests.cluster.test_state_tables import merge
from tests.cluster.walferry_runs import roll, source_of
from tests.threads_backend import Threads
from tests.unit.replication.sinks.iceberg.lake import rows_of
from walferry.admin.creating import create, to_lake
from walferry.admin.peers import peer_admin
from walferry.engine.summary import Status
from walferry.initial_snapshot.job import CopyRun
from walferry.jobs.workers import LocalProcesses
from walferry.shipping.ship_run import ShipRun, ship_queued

__all__ = ["unfed", "walferry"]  # fixtures


def catalog_of(table: str, columns: dict[str, Any], rowkey: str = "key", coder: str = "PrimitiveType") -> str:
    return json.dumps({"table": {"name": table, "tableCoder": coder}, "rowkey": rowkey, "columns": columns})


def in_lake(table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake().load_table(("default", table)).scan().to_arrow().to_pylist()
    return found


@pytest.mark.capability("typed columns of a lake")
def test_a_batch_a_first_copy_and_a_merge_fill_typed_columns_and_count_what_cannot_be_read(
    unfed: Fed, walferry: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    fed, (table, _), source = unfed, unfed.tables, unfed.sides.source
    columns = {
        "id": {"cf": "rowkey", "col": "key", "type": "long"},
        "amount": {"cf": "f", "col": "a", "type": "double"},
        "name": {"cf": "f", "col": "n", "type": "string"},
    }
    file = tmp_path / "columns.json"
    file.write_text(catalog_of(table, columns))
    source.write(table, [put(struct.pack(">q", n), {"f:a": struct.pack(">d", n / 2)}) for n in range(20)])
    source.write(table, [put(struct.pack(">q", 100), {"f:a": b"old"})])
    create_it = ("peers", "create", fed.peer, "--lake", CATALOG, "--columns", str(file), "--table-cfs", f"{table}=f")
    for columns_of, family, why in (
        (table, "g", f"gets no edits of {table}:g"),
        (fed.tables[1], "f", f"gets no edits of {fed.tables[1]}:f"),
    ):
        file.write_text(catalog_of(columns_of, {"c": {"cf": family, "col": "q", "type": "int"}}))
        status, _, error = walferry(*create_it)
        assert (status != 0, f"the mapping of table {columns_of}: peer {fed.peer} {why}" in error) == (True, True), error
    file.write_bytes(b"\xef\xbb\xbf" + catalog_of(table, columns).encode())
    status, out, error = walferry(*create_it)
    assert status == 0, error
    assert f"typed columns of {table}: id, amount, name" in out
    try:
        copied = CopyRun(source=fed.sides.at, peer_id=fed.peer, run_id="copy").run(Threads(), print)
        assert not copied.failed
        source.write(table, [put(struct.pack(">q", n), {"f:n": f"näme {n}".encode()}) for n in range(10)])
        source.write(
            table, [put(b"odd", {"f:a": b"odd", "f:n": b"\xff"}), put(struct.pack(">q", 0), {"f:a": struct.pack(">d", 9)})]
        )
        summaries = fed.batch()
        assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
        assert sum(s.unreadCells for s in summaries) == 2
        changes = in_lake(f"{table}_changes")
        status, out, error = walferry("peers", "set", fed.peer, f"lake.columns=@{file}")
        assert (status, f"typed columns of {table}: id, amount, name" in out) == (0, True), error
        assert f"typed columns of {table}: id, amount, name" in walferry("peers", "show", fed.peer)[1]
        amounts = sorted((row["id"], row["amount"]) for row in changes if row["amount"] is not None)
        assert amounts == [(0, 0.0), (0, 9.0), *((n, n / 2) for n in range(1, 20))]
        assert sorted(row["name"] for row in changes if row["name"]) == [f"näme {n}" for n in range(10)]
        unread = sorted((row["unread"], row["row"], row["value"]) for row in changes if row["unread"])
        assert unread == [
            ("amount", struct.pack(">q", 100), b"old"), ("rowkey,amount", b"odd", b"odd"), ("rowkey,name", b"odd", b"\xff"),
        ]  # fmt: skip
        merge(fed, table)
        state = in_lake(table)
        its = [row for row in state if row["id"] == 0 and row["qualifier"] == b"a"]
        assert sorted(row["amount"] for row in its) == [0.0, 9.0], "the table keeps all versions"
        assert [row["name"] for row in state if row["id"] == 3 and row["qualifier"] == b"n"] == ["näme 3"]
        assert sorted(row["unread"] for row in state if row["unread"]) == ["amount", "rowkey,amount", "rowkey,name"]
    finally:
        source.remove_peer(fed.peer)


@pytest.fixture(scope="module")
def phoenix(cluster_folder: Path) -> Iterator[Phoenix]:
    with phoenix_pair(cluster_folder / "phoenix-typed", {}, {}) as pair:
        yield pair


AT = "TO_TIMESTAMP('2023-11-14 22:13:20.123', 'yyyy-MM-dd HH:mm:ss.SSS', 'UTC')"
THEN = datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
DAY = "TO_DATE('1969-02-03', 'yyyy-MM-dd', 'UTC')"
VALUES: dict[str, tuple[str, list[tuple[str, Any]]]] = {  # by type: literals of SQL, and what a lake has to show
    "TINYINT": ("tinyint", [("-128", -128), ("127", 127)]),
    "SMALLINT": ("smallint", [("-32768", -32768), ("7", 7)]),
    "INTEGER": ("integer", [("-2147483648", -(1 << 31)), ("1", 1)]),
    "BIGINT": ("bigint", [("-9223372036854775807", 1 - (1 << 63)), ("9223372036854775807", (1 << 63) - 1)]),
    "UNSIGNED_TINYINT": ("unsigned_tinyint", [("0", 0), ("127", 127)]),
    "UNSIGNED_SMALLINT": ("unsigned_smallint", [("0", 0), ("32767", 32767)]),
    "UNSIGNED_INT": ("unsigned_int", [("0", 0), ("2147483647", (1 << 31) - 1)]),
    "UNSIGNED_LONG": ("unsigned_long", [("0", 0), ("9223372036854775807", (1 << 63) - 1)]),
    "FLOAT": ("float", [("-1.5", -1.5), ("0.25", 0.25)]),
    "DOUBLE": ("double", [("-12345.678", -12345.678), ("1e-300", 1e-300)]),
    "UNSIGNED_FLOAT": ("unsigned_float", [("0.5", 0.5), ("3", 3.0)]),
    "UNSIGNED_DOUBLE": ("unsigned_double", [("0", 0.0), ("1e300", 1e300)]),
    "DECIMAL(18,4)": (
        "decimal(18,4)",
        [(text, Decimal(text)) for text in ("0", "1", "-1", "0.0001", "-0.0001", "99999999999999.9999", "-12345.6", "100", "10")],
    ),
    "BOOLEAN": ("boolean", [("true", True), ("false", False)]),
    "DATE": ("date", [(DAY, date(1969, 2, 3))]),
    "TIME": ("time", [("TO_TIME('2023-11-14 22:13:20', 'yyyy-MM-dd HH:mm:ss', 'UTC')", THEN.replace(microsecond=0))]),
    "TIMESTAMP": ("timestamp", [(AT, THEN)]),
    "UNSIGNED_TIMESTAMP": ("unsigned_timestamp", [(AT, THEN)]),
    "VARCHAR": ("varchar", [("'näme'", "näme"), ("'x'", "x")]),
    "CHAR(5)": ("char(5)", [("'ab'", "ab"), ("'abcde'", "abcde")]),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("encoded", [0, 2], ids=["names as qualifiers", "numbers as qualifiers"])
def test_typed_columns_show_what_phoenix_has_written(
    phoenix: Phoenix, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoded: int
) -> None:
    for name, value in settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    (sql, _), (client, _) = phoenix.sql(), phoenix.clients()
    table, peer, types = f"TYPES{encoded}", unique("peer"), [*VALUES]
    of = {f"C{n}": (kind, VALUES[kind]) for n, kind in enumerate(types)}
    sql.run(
        f"CREATE TABLE {table} (ORG VARCHAR NOT NULL, ID BIGINT NOT NULL, CODE CHAR(3) NOT NULL, PRICE DECIMAL(10,2), "
        f"NOTE VARCHAR, {', '.join(f'{name} {kind}' for name, (kind, _) in of.items())} "
        f"CONSTRAINT PK PRIMARY KEY (ORG, ID, CODE, PRICE, NOTE)) REPLICATION_SCOPE=1, COLUMN_ENCODED_BYTES={encoded}"
    )
    columns = {
        **{name.lower(): {"cf": "rowkey", "col": name, "type": kind} for name, kind in {
            "ORG": "varchar", "ID": "bigint", "CODE": "char(3)", "PRICE": "decimal(10,2)", "NOTE": "varchar",
        }.items()},
        **{
            name.lower(): {"cf": "0", "col": rf"\x80\x{11 + number:02X}" if encoded else name, "type": ours}
            for number, (name, (_, (ours, _))) in enumerate(of.items())
        },
    }  # fmt: skip
    rowkey = "ORG:ID:CODE:PRICE:NOTE"
    at = source_of(phoenix.source.address)
    with peer_admin(at) as admin:
        goes_to = to_lake(CATALOG, catalog_of(table, columns, rowkey, "Phoenix"))
        create(admin, peer, None, table_cfs={table: ()}, goes_to=goes_to)
    try:
        keys = [
            ("acme", -5, "ab", Decimal("-1.50"), "a note"),
            ("x", 1 << 40, "a", Decimal("3.00"), None),
            ("y", 7, "abc", None, "z"),
        ]
        names, count = [*of], max(len(values) for _, values in VALUES.values())
        for org, id_, code, price, note in keys:
            note_text = "NULL" if note is None else f"'{note}'"
            for number in range(count):
                values = [each[number % len(each)][0] for _, (_, each) in of.values()]
                sql.run(
                    f"UPSERT INTO {table} (ORG, ID, CODE, PRICE, NOTE, {', '.join(names)}) VALUES "
                    f"('{org}', {id_ + number}, '{code}', {price or 'NULL'}, {note_text}, {', '.join(values)})"
                )
        roll(at, peer)
        run = ShipRun(source=at, peer_id=peer, run_id="run", deadline=120)
        summaries = ship_queued(run, LocalProcesses(2), print)
        assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
        assert sum(s.unreadCells for s in summaries) == 0
        found = rows_of(lake().load_table(("default", f"{table}_changes")))
        for org, id_, code, price, note in keys:
            for number in range(count):
                its = [row for row in found if (row["org"], row["id"]) == (org, id_ + number)]
                assert {(row["code"], row["price"], row["note"]) for row in its} == {(code, price, note)}
                shown = {name: row[name.lower()] for row in its for name in of if row[name.lower()] is not None}
                assert shown == {name: each[number % len(each)][1] for name, (_, (_, each)) in of.items()}
    finally:
        client.remove_peer(peer)
