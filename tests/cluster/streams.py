"""A peer of a real source whose edits go to a real broker of Kafka, and what its topics have."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from embedded.kafka import Kafka
from embedded.wire import CellType
from tests.cluster.feeds import NAMES, Fed
from tests.unit.replication.sinks.kafka.proxy import read_event
from walferry.admin.creating import create, to_kafka
from walferry.admin.peers import peer_admin
from walferry.replication.peers.settings import Records

SECONDS = 30.0


@dataclass(frozen=True)
class Streamed(Fed):
    """A peer whose edits of two tables go to Kafka, to a topic for each table."""

    broker: Kafka
    records: Records = Records.DEBEZIUM
    rules: str = ""

    def begin(self) -> None:
        """Make the topics and the peer."""
        make_topics(self.broker, [f"default.{table}" for table in self.tables])
        with peer_admin(self.sides.at) as admin:
            goes_to = to_kafka(self.broker.servers, self.records, self.rules)
            tables = dict.fromkeys(self.tables, ())
            create(admin, self.peer, None, table_cfs=tables, goes_to=goes_to, allow_missing=True)

    def topic(self, table: str) -> list[Event]:
        """The committed records of a table's topic."""
        return events(self.broker, f"default.{table}")

    def is_complete(self) -> None:
        """Check that the topics have each cell of a raw scan once, each row's in the order of the WAL, and nothing else."""
        for table in self.tables:
            found = self.topic(table)
            places = [event.place for event in found]
            assert len(set(places)) == len(places)
            raw = [cell for cell in self.sides.source.scan_all(table, raw=True) if cell.family == b"f"]
            assert sorted(event.cell for event in found) == sorted(
                (c.row, c.family, c.qualifier, c.timestamp, NAMES[CellType(c.type)], c.value) for c in raw
            )
            for row in {event.key for event in found}:
                of_row = [event for event in found if event.key == row]
                assert len({event.partition for event in of_row}) == 1
                order = [(event.source["sequence"], event.source["cell"]) for event in of_row]
                assert order == sorted(order)


@dataclass(frozen=True)
class Event:
    """A record of the form `debezium`."""

    partition: int
    key: bytes
    value: dict[str, Any]

    @property
    def source(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value["source"]
        return found

    @property
    def place(self) -> tuple[Any, ...]:
        return self.source["wal"], self.source["offset"], self.source["cell"]

    @property
    def cell(self) -> tuple[Any, ...]:
        """The cell, as it was written."""
        source, after = self.source, self.value["after"]
        assert (self.value["op"], after is None) == (("u", False) if source["type"] == "Put" else ("d", True))
        names = (base64.b64decode(source[name]) for name in ("row", "family", "qualifier"))
        return *names, source["timestamp"], source["type"], base64.b64decode(after["value"]) if after else b""


def events(broker: Kafka, topic: str) -> list[Event]:
    return [Event(partition, key, json.loads(value)) for partition, key, value in committed(broker, topic)]


def avro_events(broker: Kafka, topic: str) -> list[dict[str, Any]]:
    """The records of a topic, as a program reads them that knows the Kafka proxy's schema."""
    return [read_event(value) for _, _, value in committed(broker, topic)]


def make_topics(broker: Kafka, topics: Sequence[str], partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for made in admin.create_topics([NewTopic(topic, partitions) for topic in topics]).values():
        made.result(SECONDS)


def set_config(broker: Kafka, topic: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    wanted = ConfigResource(ResourceType.TOPIC, topic)
    for name, value in config.items():
        wanted.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    for done in admin.incremental_alter_configs([wanted]).values():
        done.result(SECONDS)


def produce(broker: Kafka, topic: str, key: bytes, value: bytes | None, partition: int) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce(topic, key=key, value=value, partition=partition)
    assert not producer.flush(SECONDS)


def committed(broker: Kafka, topic: str) -> list[tuple[int, bytes, bytes]]:
    """Read a topic to its end, as who reads committed records only: partition, key and value of each record."""
    consumer = Consumer({
        "bootstrap.servers": broker.servers, "group.id": "test", "enable.auto.commit": False, "enable.partition.eof": True,
        "isolation.level": "read_committed",
    })  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found, ended = [], set[int]()
        while ended < partitions.keys():
            message = consumer.poll(SECONDS)
            assert message is not None, f"nothing comes from {topic}"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
            else:
                found.append((message.partition(), message.key(), message.value()))
        return found
    finally:
        consumer.close()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def unstreamed(unfed: Fed, broker: Kafka) -> Streamed:
    """Two tables, and a peer that is not there yet."""
    return Streamed(unfed.sides, unfed.peer, unfed.tables, broker)


@pytest.fixture
def streamed(unstreamed: Streamed) -> Iterator[Streamed]:
    unstreamed.begin()
    yield unstreamed
    unstreamed.sides.source.remove_peer(unstreamed.peer)
