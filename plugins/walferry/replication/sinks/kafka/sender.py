"""Sends the records of one WAL group, all requests of a sending as one transaction with the group's position.

begin ─ records ─ position ─ commit        what Kafka does not take aborts the transaction
                               │
                               └─ unknown  asked for again until it is known; the next producer learns it otherwise
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from walferry.replication.sinks.kafka.clients import KafkaFailed, KafkaFenced, KafkaRefused, error_in, is_lasting, shown
from walferry.replication.sinks.kafka.positions import TOPIC, partition_of, value_of
from walferry.replication.sinks.kafka.records import RecordMaker, Routed
from walferry.replication.sinks.positions import Position
from walferry.replication.sinks.sink import SinkRequest
from walferry.replication.sinks.tries import NEVER_TRIED, Tries

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

TRANSACTION_SECONDS = 120.0  # Kafka ends a transaction that takes longer; until then batches that begin may wait for it
MESSAGE_SECONDS = 100.0  # until a record that no broker takes is given up
UNKNOWN_TOPIC_SECONDS = 5.0
SLICE_SECONDS = 1.0  # of a wait, between two looks whether to stop
ABORT_SECONDS = 5.0
FINISH_SECONDS = 10.0  # a transaction under way at the deadline may take as long
QUEUE_KBYTES = 64 << 10  # that the client holds
MOST_BYTES = (QUEUE_KBYTES << 10) - 1024  # of a record
CHECKED_RECORDS = 1000
PRODUCER = {
    "enable.idempotence": True,
    "delivery.report.only.error": True,  # a call into Python for each record would take as long as all else
    "partitioner": "murmur2",  # as Java's clients choose partitions
    "compression.type": "lz4",
    "linger.ms": 5,
    "message.max.bytes": 1_000_000_000,  # the topic decides
    "message.timeout.ms": int(MESSAGE_SECONDS * 1000),
    "transaction.timeout.ms": int(TRANSACTION_SECONDS * 1000),
    "topic.metadata.propagation.max.ms": int(UNKNOWN_TOPIC_SECONDS * 1000),
    "queue.buffering.max.kbytes": QUEUE_KBYTES,
    "queue.buffering.max.messages": 1_000_000,
}


@dataclass(frozen=True)
class KafkaRequest:
    """Changes, and the position behind their entries."""

    routed: tuple[Routed, ...]
    position: Position
    size: int
    entry_count: int
    cell_count: int
    row_count: int
    cell_bytes: int
    last_write_time: int
    hfile_count: int = 0


def joined(requests: Sequence[KafkaRequest]) -> KafkaRequest:
    """Join requests, which are in order, into one."""
    last = requests[-1]
    if len(requests) == 1:
        return last
    sums = {
        name: sum(getattr(each, name) for each in requests)
        for name in ("size", "entry_count", "cell_count", "row_count", "cell_bytes")
    }
    routed = tuple(some for each in requests for some in each.routed)
    return KafkaRequest(routed, last.position, last_write_time=last.last_write_time, **sums)


class KafkaTries(Tries):
    """The tries of a sender to Kafka."""

    def is_answer(self, error: BaseException) -> bool:
        """Return whether Kafka has refused the records itself."""
        return isinstance(error, KafkaRefused | KafkaFenced) or (isinstance(error, KafkaFailed) and error.answered)


@dataclass
class KafkaSender:
    """Sends requests, all in a row as one transaction."""

    producer: Producer
    tries: Tries
    maker: RecordMaker
    key: bytes | None
    _refusal: KafkaError | None = None  # of a record of the transaction under way
    _refused_topic: str = ""
    _under_way: bool = False
    _committing: bool = False

    def send(self, requests: Sequence[SinkRequest], deadline: float) -> None:
        """Return when Kafka has committed the records. Raises PeerClusterUnreachable, KafkaRefused, KafkaFenced, Stopped."""
        request = joined(cast(Sequence[KafkaRequest], requests))
        if not request.routed:
            return  # the rules leave out all cells, and no position is needed to leave them out again
        failures, last_error, answered = 0, NEVER_TRIED, False
        while True:
            self.tries.await_right(deadline)
            self.tries.left(deadline, failures, last_error, answered=answered)
            try:
                with self.tries.noted():
                    self._transact(request, deadline)
                return
            except KafkaFailed as error:
                failures, last_error, answered = failures + 1, str(error), error.answered
                self.tries.pause(failures, deadline, last_error)

    def _transact(self, request: KafkaRequest, deadline: float) -> None:
        """Make one try, which may end a little after the deadline. A commit whose outcome is not known yet goes on first.

        Raises KafkaFailed, KafkaRefused, KafkaFenced, Stopped.
        """
        from confluent_kafka import KafkaException

        until = max(deadline, self.tries.clock() + FINISH_SECONDS)
        try:
            if not self._committing:
                self._begin(request, until)
            self._committing = True
            while not self._is_committed():
                self.tries.check_stop()
                if self.tries.hope(until) <= 0:
                    raise KafkaFailed(f"{self.tries.peer_cluster} does not say whether a transaction is committed")
            self._committing = self._under_way = False
        except KafkaException as error:
            found = error_in(error)
            if found.fatal():
                self._committing = self._under_way = False
                raise self._fatal(found) from error
            if found.retriable() and self._committing and not found.txn_requires_abort():
                raise KafkaFailed(f"{self.tries.peer_cluster} does not commit a transaction: {shown(found)}") from error
            raise self._aborted(found) from error

    def _begin(self, request: KafkaRequest, until: float) -> None:
        """Begin a transaction, and hand over the records and the position."""
        self._refusal, self._refused_topic = None, ""
        self.producer.begin_transaction()
        self._under_way = True
        for number, record in enumerate(record for each in request.routed for record in self.maker.records(each)):
            if number % CHECKED_RECORDS == 0:
                self.tries.check_stop()
            if (size := len(record.key) + len(record.value)) > MOST_BYTES:
                raise KafkaRefused(
                    f"a record of {size:,} bytes is for topic {record.topics[0]}, and the client takes {MOST_BYTES:,} at most",
                    "Let the peer's rules leave such cells out; until then its queue waits",
                )
            for topic in record.topics:
                self._produce(until, topic=topic, key=record.key, value=record.value)
        if self.key is not None:
            self._produce(until, topic=TOPIC, key=self.key, value=value_of(request.position), partition=partition_of(self.key))

    def _produce(self, until: float, **record: Any) -> None:
        while True:
            try:
                self.producer.produce(**record, on_delivery=self._delivered)
                return
            except BufferError:  # the client holds as much as it may
                self.tries.check_stop()
                if self.tries.hope(until) <= 0:
                    raise KafkaFailed(f"{self.tries.peer_cluster} takes no further records") from None
                self.producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and (self._refusal is None or is_lasting(error) > is_lasting(self._refusal)):
            self._refusal, self._refused_topic = error, message.topic() or ""

    def _is_committed(self) -> bool:
        """Return whether the transaction is committed now; False if that is not known yet. Raises KafkaException."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            self.producer.commit_transaction(SLICE_SECONDS)
            return True
        except KafkaException as error:
            if error_in(error).code() == KafkaError._TIMED_OUT and error_in(error).retriable():
                return False
            raise

    def _aborted(self, error: KafkaError) -> KafkaFailed | KafkaRefused:
        """End the transaction without its records. Returns why, in the words of the record that was refused."""
        from confluent_kafka import KafkaException

        refusal, topic = self._refusal or error, self._refused_topic
        with contextlib.suppress(KafkaException):  # the next begin fails then, and the producer is of no use any more
            self.producer.abort_transaction(ABORT_SECONDS)
        self._committing = self._under_way = False
        where = f"topic {topic} of {self.tries.peer_cluster}" if topic else self.tries.peer_cluster
        text = f"{where} does not take records: {shown(refusal)} ({refusal.name()})"
        if is_lasting(refusal):
            return KafkaRefused(text, "Mend that there, or let the peer's rules leave such cells out; until then its queues wait")
        return KafkaFailed(text, answered=refusal.code() > 0)

    def _fatal(self, error: KafkaError) -> KafkaFenced:
        from confluent_kafka import KafkaError as Codes

        if error.code() in (Codes._FENCED, Codes.PRODUCER_FENCED, Codes.INVALID_PRODUCER_EPOCH):
            return KafkaFenced(
                f"{self.tries.peer_cluster} takes nothing more from this run: another one ships its WAL group, or a transaction "
                f"has taken more than {TRANSACTION_SECONDS:g} s",
                "The next batch goes on where this one has stopped",
            )
        what = f"{self.tries.peer_cluster} has given up this producer: {shown(error)} ({error.name()})"
        return KafkaFenced(what, "The next batch begins a new one")

    def close(self) -> None:
        """End a transaction under way, so that nobody waits for it. What still cannot be ended is left to the next producer."""
        from confluent_kafka import KafkaException

        with contextlib.suppress(KafkaException):
            if self._committing:
                self.producer.commit_transaction(ABORT_SECONDS)
            elif self._under_way:
                self.producer.abort_transaction(ABORT_SECONDS)
