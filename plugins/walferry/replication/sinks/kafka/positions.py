"""The topic that says up to where Kafka has the edits of each WAL group.

    topic      walferry-positions, compacted, with 16 partitions
    key        <feed> <WAL group>                          feed: "<peer> of <cluster id of the source>"
    value      {"wal": "<name>", "offset": <bytes>}        Kafka has all edits before it
    partition  CRC-32 of the key, modulo the number of partitions

A producer writes its group's position in the transaction of the edits, so both are there or neither is.

Who reads committed records of a partition sees them up to the first transaction that is not ended. That may be another group's.
So a position is read once all transactions have ended that had begun before. Kafka ends those of killed producers itself
(transaction.timeout.ms).
"""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from walferry.base.records import parsed_object
from walferry.hbase.names import as_wal_name
from walferry.replication.sinks.kafka.clients import CALL_SECONDS, Heard, KafkaFailed, KafkaRefused, error_in, failure
from walferry.replication.sinks.positions import Position

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

log = logging.getLogger(__name__)

TOPIC = "walferry-positions"
PARTITIONS = 16
CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}
WAIT_SECONDS = 0.2  # between two looks whether others' transactions have ended
MAX_VALUE_BYTES = 10_000


def key_of(feed: str, group: str) -> bytes:
    """Return the key of a group's position."""
    return f"{feed} {group}".encode()


def partition_of(key: bytes) -> int:
    """Return the partition of a key. It is ours, and not the client's: a reader has to find it again."""
    return zlib.crc32(key) % PARTITIONS


def value_of(position: Position) -> bytes:
    """Return a position as the topic has it."""
    return json.dumps({"wal": position[0], "offset": position[1]}).encode()


def parse(value: bytes, where: str) -> Position:
    """Return a position from the topic. Raises KafkaRefused, naming the record at `where`, if it is none."""
    try:
        found = parsed_object(value, MAX_VALUE_BYTES)
        wal, offset = found["wal"], found["offset"]
        if not isinstance(wal, str) or as_wal_name(wal) is None or type(offset) is not int or offset < 0:
            raise ValueError("it is not a WAL and an offset")
    except (ValueError, KeyError) as error:
        raise KafkaRefused(f"{where} is no position: {error!r}", "Nobody but Walferry may write to that topic") from None
    return wal, offset


def check_topic(settings: Mapping[str, Any], target: str, heard: Heard) -> None:
    """Make the topic if it is missing. Raises KafkaRefused if it could lose positions, KafkaFailed if Kafka does not answer."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

    admin = AdminClient(dict(settings))
    try:
        topics = admin.list_topics(TOPIC, timeout=CALL_SECONDS).topics
        if TOPIC not in topics or topics[TOPIC].error is not None or not topics[TOPIC].partitions:
            made = admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=CONFIG)], request_timeout=CALL_SECONDS)
            try:
                made[TOPIC].result(CALL_SECONDS)
                log.info("topic %s of %s is made", TOPIC, target)
            except KafkaException as error:
                if error_in(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            _await_topic(admin)
            topics = admin.list_topics(TOPIC, timeout=CALL_SECONDS).topics
        asked = ConfigResource(ResourceType.TOPIC, TOPIC)
        config = admin.describe_configs([asked], request_timeout=CALL_SECONDS)[asked].result(CALL_SECONDS)
    except KafkaException as error:
        raise failure(error, f"topic {TOPIC} of {target} cannot be looked up or made", heard) from error
    except TimeoutError as error:
        raise KafkaFailed(f"{target} has not answered for {CALL_SECONDS:g} s about topic {TOPIC}") from error
    if (count := len(topics[TOPIC].partitions)) != PARTITIONS:
        raise KafkaRefused(
            f"topic {TOPIC} of {target} has {count} partitions, and not {PARTITIONS}: positions would not be found",
            f"Let Walferry make it, or make it with {PARTITIONS} partitions and cleanup.policy=compact",
        )
    if (policy := config["cleanup.policy"].value) != "compact":
        raise KafkaRefused(
            f"topic {TOPIC} of {target} has cleanup.policy={policy}, and not compact: positions would be deleted",
            "Set cleanup.policy=compact there",
        )


def _await_topic(admin: AdminClient) -> None:
    """Wait until the new topic is known. Raises KafkaFailed."""
    give_up = time.monotonic() + CALL_SECONDS
    while len(getattr(admin.list_topics(TOPIC, timeout=CALL_SECONDS).topics.get(TOPIC), "partitions", ())) != PARTITIONS:
        if time.monotonic() > give_up:
            raise KafkaFailed(f"topic {TOPIC} was made, and is not there after {CALL_SECONDS:g} s")
        time.sleep(WAIT_SECONDS)


def read_position(
    settings: Mapping[str, Any], key: bytes, target: str, goes_on: Callable[[], bool], heard: Heard
) -> Position | None:
    """Return the position of a group whose earlier producers were refused; None if it has none. `goes_on` says whether to wait.

    Raises KafkaFailed, KafkaRefused.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

    partition = TopicPartition(TOPIC, partition_of(key))
    try:
        end = _await_ended(settings, partition, target, goes_on)
        consumer = Consumer({
            **settings, "group.id": "walferry", "enable.auto.commit": False, "isolation.level": "read_committed",
            "enable.partition.eof": True, "auto.offset.reset": "error",
        })  # fmt: skip
        try:
            consumer.assign([TopicPartition(partition.topic, partition.partition, OFFSET_BEGINNING)])
            found, at, arrived = None, 0, time.monotonic()
            while at < end:
                if not goes_on():
                    raise KafkaFailed(f"{target} has not sent all of topic {TOPIC}, partition {partition.partition}")
                message = consumer.poll(1.0)
                if message is None:
                    if time.monotonic() - arrived > CALL_SECONDS:
                        raise KafkaFailed(f"{target} sends nothing more of topic {TOPIC}, partition {partition.partition}")
                    continue
                arrived = time.monotonic()
                if (error := message.error()) is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    at = max(at, message.offset() or 0)
                    continue
                at = (message.offset() or 0) + 1
                if message.key() == key:
                    place = f"{target}: record {message.offset()} of partition {partition.partition} of {TOPIC}"
                    found = None if (value := message.value()) is None else parse(value, place)
            return found
        finally:
            consumer.close()
    except KafkaException as error:
        raise failure(error, f"topic {TOPIC} of {target} cannot be read", heard) from error
    except TimeoutError as error:
        raise KafkaFailed(f"{target} has not answered for {CALL_SECONDS:g} s about topic {TOPIC}") from error


def _await_ended(settings: Mapping[str, Any], partition: Any, target: str, goes_on: Callable[[], bool]) -> int:
    """Return the partition's end, once all transactions have ended that had begun before it. Raises KafkaFailed."""
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient(dict(settings))

    def end_of(level: IsolationLevel) -> int:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = admin.list_offsets({partition: latest}, isolation_level=level, request_timeout=CALL_SECONDS)
        return int(asked[partition].result(CALL_SECONDS).offset)

    end = end_of(IsolationLevel.READ_UNCOMMITTED)
    while end_of(IsolationLevel.READ_COMMITTED) < end:
        if not goes_on():
            what = f"{target}: a transaction of another WAL group has not ended, which has begun in topic {TOPIC}"
            raise KafkaFailed(what, answered=True)
        time.sleep(WAIT_SECONDS)
    return end
