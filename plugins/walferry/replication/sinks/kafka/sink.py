"""Kafka as a sink. A WAL group has one sender, each of whose sendings is a transaction: the records, and the group's position.

    entering      refuse earlier producers of the group, read its position          positions.py
    take          leave out what Kafka has; refuse what is no cell (bulk loads)
    send          begin, records, position, commit

If a commit's outcome is not known, it is asked for again until it is. Killed there, the next batch learns it from the position.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np

from walferry.base.kernels.types import Ints
from walferry.base.zk.right import Right
from walferry.hbase.names import WalName, parse_wal_name
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits
from walferry.replication.filters.rules import FilterRules
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.answers import Answers
from walferry.replication.sinks.changes import Wal, changes_of
from walferry.replication.sinks.kafka.clients import Heard, KafkaFailed, KafkaRefused, error_in, failure, no_client, settings_of
from walferry.replication.sinks.kafka.positions import TOPIC, check_topic, key_of, partition_of, read_position
from walferry.replication.sinks.kafka.records import RecordMaker
from walferry.replication.sinks.kafka.sender import PRODUCER, SLICE_SECONDS, KafkaRequest, KafkaSender, KafkaTries, joined
from walferry.replication.sinks.positions import Position, is_ahead, is_behind
from walferry.replication.sinks.sink import SinkRequest
from walferry.replication.sinks.tries import NEVER_TRIED, SendTerms
from walferry.replication.source.cluster import SourceCluster

if TYPE_CHECKING:
    from confluent_kafka import Producer

CELL_BYTES = 16  # what a cell takes in memory beside its columns


@dataclass(frozen=True)
class Entries:
    """The part of a WAL batch that Kafka does not have yet."""

    batch: WalBatch
    kept: KeptEdits
    wal: WalName
    path: str
    maker: RecordMaker
    entries: Ints
    alone: Collection[int] = ()

    def request(self, entries: Ints) -> KafkaRequest:
        """Return the changes of these entries."""
        wanted = np.zeros(len(self.batch.index), np.bool_)
        wanted[entries] = True
        kept = replace(self.kept, cells=np.where(wanted, self.kept.cells, 0))
        changes = changes_of(self.batch, kept, Wal(self.wal.group, self.wal.text, self.path))
        routed = tuple(each for each in map(self.maker.routed, changes) if each.topics)
        cells, last = sum(len(each.topics) for each in routed), int(entries[-1])
        return KafkaRequest(
            routed, (self.wal.text, int(self.batch.next_positions[last])),
            size=sum(each.rows.nbytes for each in routed) + (cells + 1) * CELL_BYTES, entry_count=len(entries), cell_count=cells,
            row_count=int(self.kept.rows[entries].sum()), cell_bytes=int(self.kept.size[entries].sum()),
            last_write_time=int(self.batch.index.write_time[last]),
        )  # fmt: skip


class KafkaSink:
    """The brokers of a peer, for one WAL group, of which the `queued` WALs are shipped.

    Without a `group`, as in a replay, no position is read or written.
    """

    most_senders = 1
    kind = "kafka"
    refused: str | None = None

    def __init__(
        self, peer: Peer, source: SourceCluster, settings: PeerSettings, deadline: float, *, source_id: UUID, group: str | None,
        queued: Collection[WalName], check: Callable[[WalBatch, KeptEdits, FilterRules, str], None], stop: threading.Event,
        right: Right, on_failure: Callable[[], None],
    ) -> None:  # fmt: skip
        feed = f"{peer.id} of {source_id}"
        self.answers = Answers()
        self._target = peer.target
        self._heard = Heard()
        self._settings = settings_of(peer, source, self._heard)
        self._deadline = deadline
        self._queued = queued
        self._group = group
        self._key = None if group is None else key_of(feed, group)
        self._name = f"walferry {feed} {group or uuid.uuid4().hex}"
        self._check = check
        self._on_failure = on_failure
        self._maker = RecordMaker(peer.kafka_records, peer.kafka_rules, feed)
        self._terms = SendTerms(peer.target, stop, settings=settings, answers=self.answers, right=right)
        self._tries = KafkaTries(self._terms)
        self._producer: Producer | None = None
        self._position: Position | None = None
        self._sender: KafkaSender | None = None

    def __enter__(self) -> Self:
        failures, last_error, answered = 0, NEVER_TRIED, False
        while True:
            self._tries.left(self._deadline, failures, last_error, answered=answered)
            try:
                with self._tries.noted():
                    self._open()
                return self
            except KafkaFailed as error:
                failures, last_error, answered = failures + 1, str(error), error.answered
                self._on_failure()
                self._tries.pause(failures, self._deadline, last_error)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._sender is not None:
            self._sender.close()
        self._producer = None

    def _open(self) -> None:
        """Refuse earlier producers, and read the position. Raises KafkaFailed, KafkaRefused, Stopped."""
        try:
            from confluent_kafka import KafkaException, Producer
        except ImportError as error:
            raise no_client(error) from error
        try:
            if self._key is not None:
                check_topic(self._settings, self._target, self._heard)
            self._producer = Producer({**PRODUCER, **self._settings, "transactional.id": self._name})
            for left in self._slices():
                try:
                    self._producer.init_transactions(left)
                    break
                except KafkaException as error:
                    if not error_in(error).retriable():
                        raise
                    last = error
            else:
                self._producer.poll(0)  # tells what was heard
                raise failure(last, f"{self._target} does not let producer {self._name} begin", self._heard)
            if self._key is not None:
                self._position = read_position(self._settings, self._key, self._target, lambda: self._left > 0, self._heard)
                self._check_position()
        except KafkaException as error:
            raise failure(error, f"{self._target} cannot be used", self._heard) from error

    def _check_position(self) -> None:
        """Raise KafkaRefused for a position that cannot be the group's: edits would be left out that Kafka does not have."""
        if self._position is None:
            return
        wal = parse_wal_name(self._position[0])
        why = f"it is of WAL group {wal.group}" if wal.group != self._group else ""
        if is_ahead(self._position, self._queued):
            why = "older WALs are queued and this one is not: somebody has written it, or the server's clock was set back"
        if why:
            key = "" if self._key is None else self._key.decode()
            raise KafkaRefused(
                f"topic {TOPIC} of {self._target} says that WAL group {self._group} is there up to {wal}, but {why}",
                f"If the queue is right, write a record without a value for the key {key} into partition "
                f"{partition_of(key.encode())} of that topic: then all that is queued is sent",
            )

    @property
    def _left(self) -> float:
        return 0.0 if self._terms.stop.is_set() else self._tries.hope(self._deadline)

    def _slices(self) -> Iterator[float]:
        """Yield the seconds for each call of a wait, at least once. Raises Stopped."""
        yield SLICE_SECONDS
        while (left := self._left) > 0:
            yield min(SLICE_SECONDS, left)
        self._tries.check_stop()

    @property
    def id(self) -> UUID:
        """The id that edits would have which come from there. None do."""
        return uuid5(NAMESPACE_URL, f"walferry {self._target}")

    @property
    def failed_requests(self) -> int:
        """The number of transactions that had to be begun again."""
        return self._tries.failed

    def take(self, batch: WalBatch, kept: KeptEdits, rules: FilterRules, path: str) -> Entries:
        """Return the entries with cells that Kafka does not have. Raises WalCorruptError, and what the check raises."""
        self._check(batch, kept, rules, path)
        wal = parse_wal_name(path.rpartition("/")[2])
        wanted = kept.cells > 0
        if self._position is not None:
            wanted &= is_behind(self._position, wal, batch.positions)
        return Entries(batch, kept, wal, path, self._maker, np.flatnonzero(wanted))

    def join(self, requests: Sequence[SinkRequest]) -> KafkaRequest:
        """Join requests into one."""
        return joined(cast(Sequence[KafkaRequest], requests))

    def sender(self) -> KafkaSender:
        """Return the sender: there is one."""
        if self._producer is None:
            raise RuntimeError("a KafkaSink is used within its with-block")
        self._sender = KafkaSender(self._producer, self._tries, self._maker, self._key)
        return self._sender

    def look_after_calls(self, deadline: float) -> None:
        """Do nothing: each wait looks itself whether to go on."""

    def interrupt(self) -> None:
        """Do nothing: the stop event has been set, and each wait looks at it."""
