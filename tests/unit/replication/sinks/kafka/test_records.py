"""A cell becomes the record that HBase's Kafka proxy would write, or one in Debezium's envelope."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import Cell
from tests.unit.hbase.wal.strategies import TYPE_NAMES, cells
from tests.unit.replication.sinks.iceberg.lake import WAL, changes, entry, put
from walferry.replication.peers.settings import Records
from walferry.replication.peers.topic_rules import TopicRules
from walferry.replication.sinks.kafka.records import Record, RecordMaker, _long

from .proxy import read_event

FEED = "events of 1-2"


def records(*body: Cell, form: Records, rules: str = "", table: bytes = b"ns:t") -> list[Record]:
    maker = RecordMaker(form, TopicRules.parse(rules), FEED)
    return [record for each in changes([entry(*body, table=table)]) for record in maker.records(maker.routed(each))]


def of_family(body: list[Cell]) -> list[Cell]:
    return [type(cell)(cell.row, b"f", cell.qualifier, cell.timestamp, cell.type, cell.value, cell.tags) for cell in body]


@given(body=st.lists(cells, min_size=1, max_size=5))
def test_a_cell_is_what_a_reader_of_the_proxy_s_records_expects(body: list[Cell]) -> None:
    body = of_family(body)
    found = records(*body, form=Records.AVRO)
    assert [record.topics for record in found] == [("ns.t",)] * len(body)
    assert [record.key for record in found] == [cell.row for cell in body]
    for record, cell in zip(found, body, strict=True):
        assert read_event(record.value) == {
            "key": cell.row, "timestamp": cell.timestamp, "delete": TYPE_NAMES[cell.type] != "Put", "value": cell.value,
            "qualifier": cell.qualifier, "family": b"f", "table": b"ns:t",
        }  # fmt: skip


@given(body=st.lists(cells, min_size=1, max_size=5))
def test_a_cell_is_in_debezium_s_envelope_with_its_place(body: list[Cell]) -> None:
    body = of_family(body)
    found = [json.loads(record.value) for record in records(*body, form=Records.DEBEZIUM)]
    for number, (event, cell) in enumerate(zip(found, body, strict=True)):
        source: dict[str, Any] = event["source"]
        assert event["before"] is None
        key = {
            "row": encoded(cell.row), "family": encoded(b"f"), "qualifier": encoded(cell.qualifier), "timestamp": cell.timestamp
        }  # fmt: skip
        assert source.items() >= {
            **key, "connector": "walferry", "name": FEED, "db": "ns", "table": "t", "type": TYPE_NAMES[cell.type], "cell": number,
            "wal": WAL.name, "offset": 1000, "sequence": 1, "ts_ms": 1_700_000_000_000,
        }.items()  # fmt: skip
        put_ = TYPE_NAMES[cell.type] == "Put"
        assert event["op"] == ("u" if put_ else "d")
        assert event["after"] == ({**key, "value": encoded(cell.value), "tags": encoded(cell.tags)} if put_ else None)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_long_is_written_as_avro_writes_it(number: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema("long"), number)
    assert _long(number) == out.getvalue()


def test_many_cells_are_made_a_few_at_a_time_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.replication.sinks.kafka.records.ROWS_AT_ONCE", 3)
    body = [put(b"%d" % number) for number in range(10)]
    for rules in ("", '<rules><rule action="route" topic="a"/></rules>'):
        assert [record.key for record in records(*body, form=Records.AVRO, rules=rules)] == [cell.row for cell in body]


def test_long_qualifiers_are_not_remembered() -> None:
    maker = RecordMaker(Records.AVRO, TopicRules.parse('<rules><rule action="route" topic="a"/></rules>'), FEED)
    for number in range(5):
        maker.routed(changes([entry(Cell(b"r", b"f", b"%d" % number * 1000, 1, 4, b"v", b""))])[0])
    assert maker._topics.cache_info().currsize == 0


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_cells_that_no_rule_routes_are_left_out() -> None:
    rules = '<rules><rule action="route" table="ns:t" topic="a,b"/><rule action="drop" qualifier="secret"/></rules>'
    secret = Cell(b"r", b"f", b"secret", 1, 4, b"v", b"")
    for form in Records:
        assert [(each.topics, each.key) for each in records(secret, put(b"s"), form=form, rules=rules)] == [(("a", "b"), b"s")]
        assert records(put(b"s"), form=form, rules=rules, table=b"other") == []


def test_an_entry_without_a_time_has_none_in_the_envelope() -> None:
    maker = RecordMaker(Records.DEBEZIUM, TopicRules.parse(""), FEED)
    (found,) = changes([entry(put(b"r"), table=b"t", write_time=(1 << 64) - 1)])
    (record,) = maker.records(maker.routed(found))
    source = json.loads(record.value)["source"]
    assert (source["ts_ms"], source["db"], source["table"]) == (None, "default", "t")
