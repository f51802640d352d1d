"""A cell as a record of Kafka. The record's key is the cell's row, so a row's cells are in one partition, in their order.

    avro        HBaseKafkaEvent of hbase-connectors' kafka-proxy, in Avro's binary encoding, without a schema before it:
                bytes key (the row), long timestamp, boolean delete, bytes value, bytes qualifier, bytes family, bytes table;
                bytes: long length, and the bytes (https://avro.apache.org/docs/1.12.0/specification/#binary-encoding)
    debezium    JSON in the envelope of Debezium's connectors:
                {"before": null,
                 "after": {row, family, qualifier, timestamp, value, tags}, null for delete markers
                 "source": {version, connector, name, ts_ms, db, table, row, family, qualifier, timestamp, type,
                            region, sequence, wal, offset, cell, cluster_ids},
                 "op": "u" for a put, "d" for a delete marker, "ts_ms": when the record was made}

In the JSON, row, family, qualifier, value and tags are in Base64. `before` is always null, because WALs do not have what was
there before. In Avro a delete marker is `delete` with its column, and its kind is not told: the proxy does not tell it either.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from walferry import __version__
from walferry.replication.peers.settings import Records
from walferry.replication.peers.topic_rules import DEFAULT_NAMESPACE, TopicRules
from walferry.replication.sinks.changes import Changes

PUT = "Put"
FALSE, TRUE = b"\x00", b"\x01"  # of Avro
_OF_CELL = (
    "row", "family", "qualifier", "timestamp", "type", "value", "tags", "region", "sequence_id", "wal", "offset", "cell",
    "cluster_ids",
)  # fmt: skip
CACHED_NUMBERS, CACHED_NAMES = 10_000, 1_000  # lengths and timestamps; names
CACHED_COLUMNS, CACHED_BYTES = 10_000, 200  # columns whose topics are remembered, and how long their qualifiers may be
ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Routed:
    """Changes of a table, each with the topics that get it."""

    table: str
    rows: pa.RecordBatch
    topics: Sequence[tuple[str, ...]]


class Record(NamedTuple):
    """A record for some topics."""

    topics: tuple[str, ...]
    key: bytes
    value: bytes


class RecordMaker:
    """Makes the records of one peer. `feed` is its name in Debezium's envelopes."""

    def __init__(self, form: Records, rules: TopicRules, feed: str) -> None:
        self._rules = rules
        self._topics = lru_cache(CACHED_COLUMNS)(rules.topics)
        self._values = self._avro if form is Records.AVRO else self._debezium
        self._feed = feed

    def routed(self, changes: Changes) -> Routed:
        """Return the changes that a topic gets."""
        rows = changes.rows
        if self._rules.rules is None:
            return Routed(changes.table, rows, [self._topics(changes.table, b"", b"")] * rows.num_rows)
        columns = (rows.column(name).to_pylist() for name in ("family", "qualifier"))
        topics = [
            (self._topics if len(qualifier) <= CACHED_BYTES else self._rules.topics)(changes.table, family, qualifier)
            for family, qualifier in zip(*columns, strict=True)
        ]
        if not all(topics):
            rows = rows.filter(pa.array([bool(each) for each in topics]))
            topics = [each for each in topics if each]
        return Routed(changes.table, rows, topics)

    def records(self, routed: Routed) -> Iterator[Record]:
        """Yield the records, in their order. Only a few of them are held at a time."""
        for at in range(0, routed.rows.num_rows, ROWS_AT_ONCE):
            rows, topics = routed.rows.slice(at, ROWS_AT_ONCE), routed.topics[at : at + ROWS_AT_ONCE]
            values = self._values(routed.table, rows)
            yield from map(Record, topics, rows.column("row").to_pylist(), values)

    def _avro(self, table: str, rows: pa.RecordBatch) -> Iterator[bytes]:
        name = _bytes(table.encode())
        columns = (rows.column(each).to_pylist() for each in ("row", "timestamp", "type", "value", "qualifier", "family"))
        for row, timestamp, kind, value, qualifier, family in zip(*columns, strict=True):
            yield b"".join((
                _long(len(row)), row, _long(timestamp), FALSE if kind == PUT else TRUE, _long(len(value)), value,
                _long(len(qualifier)), qualifier, _long(len(family)), family, name,
            ))  # fmt: skip

    def _debezium(self, table: str, rows: pa.RecordBatch) -> Iterator[bytes]:
        """Make the JSON of parts: of a cell, a dictionary and its encoding would take three times as long."""
        namespace, _, name = table.rpartition(":")
        fixed = {
            "version": __version__, "connector": "walferry", "name": self._feed, "db": namespace or DEFAULT_NAMESPACE,
            "table": name,
        }  # fmt: skip
        begin, end = f'"source":{json.dumps(fixed)[:-1]},"ts_ms":', f'"ts_ms":{int(time.time() * 1000)}}}'
        written = rows.column("write_time").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        columns = (rows.column(each).to_pylist() for each in _OF_CELL)
        for row, family, qualifier, timestamp, kind, value, tags, region, sequence, wal, offset, cell, ids, at in zip(
            *columns, written, strict=True
        ):
            key = f'"row":"{_base64(row)}","family":"{_name(family)}","qualifier":"{_base64(qualifier)}","timestamp":{timestamp}'
            after, op = "null", "d"
            if kind == PUT:
                after, op = f'{{{key},"value":"{_base64(value)}","tags":"{_base64(tags)}"}}', "u"
            yield (
                f'{{"before":null,"after":{after},{begin}{"null" if at is None else at},{key},"type":"{kind}",'
                f'"region":{_text(region)},"sequence":{sequence},"wal":{_text(wal)},"offset":{offset},"cell":{cell},'
                f'"cluster_ids":{json.dumps(ids) if ids else "[]"}}},"op":"{op}",{end}'
            ).encode()


@lru_cache(CACHED_NUMBERS)
def _long(number: int) -> bytes:
    """Return a number as Avro writes a long: in zigzag order, seven bits a byte, the lowest ones first."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _bytes(content: bytes) -> bytes:
    return _long(len(content)) + content


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


_name = lru_cache(CACHED_NAMES)(_base64)  # of families
_known_text = lru_cache(CACHED_NAMES)(json.dumps)


def _text(name: str) -> str:
    """Return the JSON of a region's or a WAL's name."""
    return _known_text(name) if len(name) <= CACHED_BYTES else json.dumps(name)
