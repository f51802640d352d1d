"""Compares our way from a WAL to Kafka with librdkafka's own producer, which sends the same records, in turns.

    PYTHONPATH=plugins python -m bench.kafka            WALFERRY_BENCH_WAL_MB (256), WALFERRY_BENCH_WAL_ROUNDS (5)

 Walferry    reads the WAL, filters, decodes, makes records, and sends them in transactions with positions
 producer    sends the same records, which it holds in memory, without transactions

The WAL is HBase's own writer's: 100-byte values, 8 regions, two cells an entry. The broker is a real one here, with one
copy of everything. Both send from Python, with the same settings, one process each.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import numpy as np
import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.changes import in_turns, print_ratio, table_in, written_wal
from embedded.kafka import Kafka
from walferry.hbase.files.systems import open_wal
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules
from walferry.replication.peers.settings import Records
from walferry.replication.peers.topic_rules import TopicRules, topic_of
from walferry.replication.sinks.kafka.positions import CONFIG, PARTITIONS, TOPIC, key_of
from walferry.replication.sinks.kafka.records import RecordMaker
from walferry.replication.sinks.kafka.sender import PRODUCER, KafkaRequest, KafkaSender, KafkaTries
from walferry.replication.sinks.kafka.sink import Entries
from walferry.replication.sinks.tries import SendTerms

RULES = FilterRules(UUID(int=1), UUID(int=2))
SHIPMENT_ENTRIES = 8_000  # some 2 MiB of cells, as the default is
SECONDS = 60.0


def requests(wal: Path, maker: RecordMaker) -> Iterator[KafkaRequest]:
    """The requests of a WAL, as the engine has them made."""
    path, name = f"file://{wal}", parse_wal_name(wal.name)
    with open_wal(path) as file:
        for batch in read_wal_batches(file, path, 0, partial_tail="error"):
            kept = filter_batch(batch, RULES, path)
            taken = Entries(batch, kept, name, path, maker, np.flatnonzero(kept.cells > 0))
            for at in range(0, len(taken.entries), SHIPMENT_ENTRIES):
                yield taken.request(taken.entries[at : at + SHIPMENT_ENTRIES])


def send_in_transactions(wal: Path, maker: RecordMaker, servers: str) -> None:
    producer = Producer({**PRODUCER, "bootstrap.servers": servers, "transactional.id": "bench"})
    producer.init_transactions(SECONDS)
    sender = KafkaSender(producer, KafkaTries(SendTerms("the broker", threading.Event())), maker, key_of("bench", "group"))
    for request in requests(wal, maker):
        sender.send([request], time.monotonic() + SECONDS)


def send_alone(records: list[tuple[str, bytes, bytes]], servers: str) -> None:
    of_transactions = {"transaction.timeout.ms"}
    settings = {name: value for name, value in PRODUCER.items() if name not in of_transactions}
    producer = Producer({**settings, "bootstrap.servers": servers})
    for topic, key, value in records:
        while True:
            try:
                producer.produce(topic, key=key, value=value)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(SECONDS):
        raise RuntimeError(f"{left} records were not sent")


def compare(wal: Path, form: Records, servers: str) -> None:
    maker, size = RecordMaker(form, TopicRules(), "bench"), wal.stat().st_size / 1e6
    records = [
        (topic, record.key, record.value)
        for request in requests(wal, maker)
        for routed in request.routed
        for record in maker.records(routed)
        for topic in record.topics
    ]
    this = psutil.Process()
    ways: dict[str, tuple[Callable[[], object], psutil.Process]] = {
        "Walferry": (lambda: send_in_transactions(wal, maker, servers), this),
        "producer": (lambda: send_alone(records, servers), this),
    }
    found = in_turns(ways, warm_up=1)
    bytes_sent = sum(len(key) + len(value) for _, key, value in records) / 1e6
    print(f"{form}: WAL of {size:.0f} MB, {len(records):,} records of {bytes_sent:.0f} MB; MB of the WAL a second")
    for way, runs in found.items():
        rounds = " ".join(f"{size / wall:5.1f}" for wall, _ in runs)
        cpu = statistics.median(size / each for _, each in runs)
        rate = statistics.median(len(records) / wall for wall, _ in runs)
        print(f"  {way:9} {rounds}   per CPU-second {cpu:5.1f}; {rate:,.0f} records a second")
    print_ratio(found, "Walferry", "producer")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="walferry-bench-") as name:
        folder = Path(name)
        wal = written_wal(folder)
        with Kafka(folder / "kafka") as broker:
            admin = AdminClient({"bootstrap.servers": broker.servers})
            topics = [NewTopic(topic_of(table_in(wal)), 8), NewTopic(TOPIC, PARTITIONS, config=CONFIG)]
            for made in admin.create_topics(topics).values():
                made.result(SECONDS)
            for form in Records:
                compare(wal, form, broker.servers)


if __name__ == "__main__":
    main()
