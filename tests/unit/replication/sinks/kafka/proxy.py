"""The records of HBase's Kafka proxy, as its readers read them: hbase-kafka-model's HbaseKafkaEvent.avro of hbase-connectors."""

from __future__ import annotations

import io
from typing import Any

import fastavro

_SCHEMA = fastavro.parse_schema(
    {
        "namespace": "org.apache.hadoop.hbase.kafka",
        "type": "record",
        "name": "HBaseKafkaEvent",
        "fields": [
            {"name": "key", "type": "bytes"},
            {"name": "timestamp", "type": "long"},
            {"name": "delete", "type": "boolean"},
            {"name": "value", "type": "bytes"},
            {"name": "qualifier", "type": "bytes"},
            {"name": "family", "type": "bytes"},
            {"name": "table", "type": "bytes"},
        ],
    }
)


def read_event(content: bytes) -> dict[str, Any]:
    """Read a record to its end."""
    text = io.BytesIO(content)
    found: Any = fastavro.schemaless_reader(text, _SCHEMA)
    assert not text.read()
    return dict(found)
