"""Senders keep a region's order, hold a bounded number of bytes, and can be stopped."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_entry
from walferry.base.protos import hbase_pb2 as pb
from walferry.engine.in_flight import InFlight, WalOffset
from walferry.engine.senders import MOST_BYTES, Queued, SenderPace, SenderQueue, Senders
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import FilterRules, KeptEdits, filter_batch, uuid_field
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.errors import Stopped
from walferry.replication.sinks.hbase.shipment import Shipment, assemble, join
from walferry.replication.sinks.hbase.sink import ShipmentsOf
from walferry.replication.sinks.sink import Ints

RULES = FilterRules(uuid.UUID(int=1), uuid.UUID(int=2))
MARK = np.frombuffer(uuid_field(uuid.UUID(int=1)), np.uint8)
TIMEOUT = 20.0


def wal_batch(count: int, regions: int, value: bytes = b"v" * 50, first: int = 0) -> WalBatch:
    entries = []
    for i in range(first, first + count):
        key = pb.WALKey(encoded_region_name=f"region{i % regions}".encode(), table_name=b"t", log_sequence_number=i, write_time=i)
        key.following_kv_count = 1
        key.scopes.add(family=b"f", scope_type=pb.REPLICATION_SCOPE_GLOBAL)
        entries.append(encode_entry(Entry(key, (Cell(b"row%d" % i, b"f", b"q", i, PUT, value),))))
    data = np.frombuffer(b"".join(entries), np.uint8)
    return WalBatch(data, 85, scan_entries(data, 0, len(data)).index)


def taken(w: WalBatch) -> tuple[WalBatch, KeptEdits, int, ShipmentsOf]:
    """The arguments of `dispatch` for a batch without bulk loads."""
    kept = filter_batch(w, RULES, "wal")
    return w, kept, 0, ShipmentsOf(w, kept, {}, MARK)


class Sinks:
    """Takes shipments as a peer cluster would; holds them back until `gate` is set."""

    def __init__(self, gate: bool = True) -> None:
        self.lock = threading.Lock()
        self.gate = threading.Event()
        if gate:
            self.gate.set()
        self.shipments: list[Shipment] = []
        self.sent: list[int] = []  # how many of them at once
        self.begun = 0

    def ship(self, shipments: Sequence[Shipment]) -> None:
        with self.lock:
            self.begun += len(shipments)
        assert self.gate.wait(TIMEOUT)
        with self.lock:
            self.sent.append(len(shipments))
            self.shipments += shipments

    def sequence_ids(self) -> dict[bytes, list[int]]:
        by_region = defaultdict(list)
        for shipment in self.shipments:
            for entry in pb.ReplicateWALEntryRequest.FromString(b"".join(e.tobytes() for e in shipment.entries)).entry:
                by_region[entry.key.encoded_region_name].append(entry.key.log_sequence_number)
        return by_region


class Run:
    def __init__(self, ship, senders: int, limits: PeerSettings) -> None:
        self.in_flight = InFlight()
        self.in_flight.read_to(WalOffset(0, 85))
        self.stop = threading.Event()
        self.failures: list[BaseException] = []
        self.senders = Senders(
            [ship] * senders, join, self.in_flight, limits, stop=self.stop,
            on_acknowledged=lambda _: None, on_failure=self.failures.append,
        )  # fmt: skip

    def dispatch(self, w: WalBatch) -> None:
        self.senders.dispatch(*taken(w))
        self.in_flight.read_to(WalOffset(0, int(w.next_positions[-1])))


@pytest.mark.parametrize("senders", [1, 2, 5])
def test_each_region_s_edits_arrive_once_and_in_order(senders):
    sinks = Sinks()
    run = Run(sinks.ship, senders, PeerSettings(shipment_bytes=300))
    w = wal_batch(500, 7)
    run.dispatch(w)
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert sinks.sequence_ids() == {f"region{i}".encode(): list(range(i, 500, 7)) for i in range(7)}
    assert len(sinks.shipments) > senders
    assert run.in_flight.low_watermark() == WalOffset(0, int(w.next_positions[-1]))


class Observed(InFlight):
    """Records the safe offset after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[WalOffset] = []

    def begin(self, first: WalOffset, written: int = 0) -> int:
        number = super().begin(first, written)
        self.seen.append(self.low_watermark())
        return number

    def acknowledge(self, number: int) -> None:
        super().acknowledge(number)
        self.seen.append(self.low_watermark())


def test_the_write_time_of_the_oldest_unacknowledged_entry_is_known():
    sinks = Sinks(gate=False)
    run = Run(sinks.ship, 1, PeerSettings(shipment_bytes=300))
    run.dispatch(wal_batch(50, 1))
    assert run.in_flight.oldest_written() == 0  # as the batch's write times count from 0
    shipped = []
    run.senders._on_acknowledged = lambda shipment: shipped.append((shipment.last_write_time, run.in_flight.oldest_written()))
    sinks.gate.set()
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert [later for _, later in shipped[1:]] == [last + 1 for last, _ in shipped[:-1]]
    assert run.in_flight.oldest_written() is None


def test_nothing_of_a_wal_batch_is_safe_while_it_is_handed_out_sender_by_sender():
    sinks = Sinks(gate=False)
    run = Run(sinks.ship, 8, PeerSettings(shipment_bytes=1000, buffer_bytes=10 << 20))
    observed = run.senders._in_flight = Observed()
    observed.read_to(WalOffset(0, 85))
    w = wal_batch(500, 7)
    run.senders.dispatch(*taken(w))
    assert len(observed.seen) > 16
    assert set(observed.seen) == {WalOffset(0, 85)}
    sinks.gate.set()
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert observed.low_watermark() == WalOffset(0, int(w.next_positions[-1]))


def test_the_safe_offset_advances_within_a_wal_batch_that_is_large_for_the_buffer():
    sinks = Sinks()
    run = Run(sinks.ship, 2, PeerSettings(shipment_bytes=500, buffer_bytes=16_000))
    observed = run.senders._in_flight = Observed()
    observed.read_to(WalOffset(0, 85))
    w = wal_batch(2000, 7)
    run.senders.dispatch(*taken(w))
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert observed.low_watermark() == WalOffset(0, int(w.next_positions[-1]))
    assert len({seen.offset // 10_000 for seen in observed.seen}) > 10


def test_shipments_are_bounded_in_bytes_and_entries():
    sinks = Sinks()
    run = Run(sinks.ship, 2, PeerSettings(shipment_bytes=1000, shipment_entries=5))
    run.dispatch(wal_batch(400, 4))
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert max(s.cell_bytes for s in sinks.shipments) <= 1000
    assert max(s.entry_count for s in sinks.shipments) == 5


def test_the_reader_waits_while_the_buffer_is_full():
    sinks = Sinks(gate=False)
    limits = PeerSettings(shipment_bytes=1000, buffer_bytes=5000)
    run = Run(sinks.ship, 2, limits)
    reader = threading.Thread(target=run.dispatch, args=(wal_batch(2000, 4),), daemon=True)
    reader.start()
    reader.join(0.5)
    assert reader.is_alive()
    assert sum(len(q) for q in run.senders._queues) <= 5
    assert run.in_flight.low_watermark() == WalOffset(0, 85)
    sinks.gate.set()
    reader.join(TIMEOUT)
    assert not reader.is_alive()
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert sum(s.entry_count for s in sinks.shipments) == 2000


@pytest.mark.parametrize("senders", [1, 2, 8, 40])
def test_the_buffer_also_bounds_the_requests_that_are_being_filled(senders):
    sinks = Sinks(gate=False)
    limits = PeerSettings(shipment_bytes=2000, buffer_bytes=20_000)
    run = Run(sinks.ship, senders, limits)
    reader = threading.Thread(target=run.dispatch, args=(wal_batch(3000, 200),), daemon=True)
    reader.start()
    reader.join(0.5)
    assert reader.is_alive()
    begun = sum(open_.size for open_ in run.senders._open if open_)
    assert 5_000 < run.senders._budget._held + begun <= 20_000
    sinks.gate.set()
    reader.join(TIMEOUT)
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert sum(s.entry_count for s in sinks.shipments) == 3000


def test_an_entry_larger_than_the_buffer_passes_alone():
    sinks = Sinks()
    run = Run(sinks.ship, 2, PeerSettings(shipment_bytes=100, buffer_bytes=200))
    run.dispatch(wal_batch(6, 3, value=b"v" * 1000))
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert [s.entry_count for s in sinks.shipments] == [1] * 6


def test_what_has_been_queued_while_a_sender_waited_is_sent_at_once():
    sinks = Sinks(gate=False)
    run = Run(sinks.ship, 1, PeerSettings(shipment_entries=1))
    w = wal_batch(100, 1)
    run.dispatch(w)
    run.senders.finish()
    assert run.in_flight.low_watermark() == WalOffset(0, 85)
    sinks.gate.set()
    assert run.senders.join(TIMEOUT)
    assert sinks.sent[:3] == [1, 2, 4]
    assert max(sinks.sent) > 20
    assert sinks.sequence_ids() == {b"region0": list(range(100))}
    assert run.in_flight.low_watermark() == WalOffset(0, int(w.next_positions[-1]))
    assert run.senders._budget._held == 0


def test_of_what_was_sent_at_once_nothing_is_safe_before_all_is_acknowledged():
    sinks = Sinks(gate=False)

    def ship(shipments: Sequence[Shipment]) -> None:
        sinks.ship(shipments)
        if len(shipments) == 4:
            raise ValueError("no such table")

    run = Run(ship, 1, PeerSettings(shipment_entries=1))
    w = wal_batch(50, 1)
    run.dispatch(w)
    sinks.gate.set()
    assert run.senders.join(TIMEOUT)
    assert sinks.sent == [1, 2, 4]
    assert run.in_flight.low_watermark() == WalOffset(0, int(w.positions[3]))


def test_a_failing_sender_leaves_the_position_before_its_shipment():
    all_handed_out = threading.Event()

    def ship(shipments: Sequence[Shipment]) -> None:
        assert all_handed_out.wait(TIMEOUT)
        request = pb.ReplicateWALEntryRequest.FromString(shipments[0].entries[0].tobytes())
        if request.entry[0].key.log_sequence_number == 3:
            raise ValueError("no such table")

    run = Run(ship, 1, PeerSettings(shipment_entries=1))
    w = wal_batch(6, 1)
    run.dispatch(w)
    run.senders.finish()
    all_handed_out.set()
    assert run.senders.join(TIMEOUT)
    assert [str(e) for e in run.failures] == ["no such table"]
    assert run.in_flight.low_watermark() == WalOffset(0, int(w.positions[3]))


def test_a_failing_sender_wakes_a_waiting_reader_and_ends_the_other_senders():
    gate = threading.Event()

    def ship(_: Sequence[Shipment]) -> None:
        assert gate.wait(TIMEOUT)
        raise ValueError("no such table")

    run = Run(ship, 2, PeerSettings(shipment_bytes=1000, buffer_bytes=3000))

    def read() -> None:
        with contextlib.suppress(Stopped):
            run.dispatch(wal_batch(2000, 4))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(0.3)
    assert reader.is_alive()
    gate.set()
    reader.join(TIMEOUT)
    assert not reader.is_alive()
    assert run.senders.join(TIMEOUT)


def test_stopping_wakes_a_waiting_reader_and_ends_the_senders():
    sinks = Sinks(gate=False)
    run = Run(sinks.ship, 2, PeerSettings(shipment_bytes=1000, buffer_bytes=3000))
    outcome: list[type] = []

    def read() -> None:
        try:
            run.dispatch(wal_batch(2000, 4))
        except Stopped as e:
            outcome.append(type(e))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(0.3)
    run.stop.set()
    run.senders.stop()
    reader.join(TIMEOUT)
    sinks.gate.set()
    assert run.senders.join(TIMEOUT)
    assert outcome == [Stopped]
    assert len(sinks.shipments) == sinks.begun  # those under way, and no others
    with pytest.raises(Stopped):
        run.dispatch(wal_batch(1, 1))


@pytest.mark.parametrize("alone", [{0}, {7}, {3, 4}, {0, 1, 2, 5, 9}, set(range(10))])
def test_an_entry_that_goes_alone_keeps_its_place_among_its_region_s_edits(alone):
    sinks = Sinks()
    run = Run(sinks.ship, 2, PeerSettings(shipment_entries=3))
    w = wal_batch(10, 2)
    kept = filter_batch(w, RULES, "wal")
    shipments = {i: assemble(w, kept, np.array([i]), MARK) for i in alone}
    for i in alone:
        kept.cells[i] = i % 2  # also where the filter has left nothing of it
    run.senders.dispatch(w, kept, 0, ShipmentsOf(w, kept, shipments, MARK))
    run.in_flight.read_to(WalOffset(0, int(w.next_positions[-1])))
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert not run.failures
    assert sinks.sequence_ids() == {b"region0": [0, 2, 4, 6, 8], b"region1": [1, 3, 5, 7, 9]}
    assert all(any(s is shipment for s in sinks.shipments) for shipment in shipments.values())
    assert run.in_flight.low_watermark() == WalOffset(0, int(w.next_positions[-1]))


def test_a_request_that_cannot_be_made_leaves_nothing_behind_that_keeps_the_senders_from_ending() -> None:
    """As when there is no memory for it. What was dispatched before is still sent, and no position passes what was not."""
    sinks = Sinks()
    run = Run(sinks.ship, 2, PeerSettings())
    first, second = wal_batch(10, 1), wal_batch(10, 2)

    class Failing(ShipmentsOf):
        def request(self, entries: Ints) -> Shipment:
            if int(entries[0]) == 1:
                raise MemoryError
            return super().request(entries)

    run.dispatch(first)
    kept = filter_batch(second, RULES, "wal")
    with pytest.raises(MemoryError):
        run.senders.dispatch(second, kept, 1, Failing(second, kept, {}, MARK))
    run.senders.finish()
    assert run.senders.join(TIMEOUT)
    assert sum(shipment.entry_count for shipment in sinks.shipments) >= 10
    assert run.in_flight.low_watermark() == WalOffset(0, int(first.next_positions[-1]))


MB = 1 << 20


def request(size: int) -> Any:
    return SimpleNamespace(size=size)


def filled(*sizes: int, alone: tuple[int, ...] = ()) -> SenderQueue:
    queue = SenderQueue()
    for number, size in enumerate(sizes):
        queue.put(Queued(number, request(size), number in alone))
    queue.end()
    return queue


def taken_at_once(queue: SenderQueue, most_bytes: float) -> list[list[int]]:
    """The numbers of what is taken at once, until nothing is left."""
    found = []
    while some := queue.get(most_bytes):
        found.append([each.number for each in some])
    return found


def test_what_has_been_queued_meanwhile_is_taken_at_once_as_far_as_it_fits():
    assert taken_at_once(filled(3, 3, 3, 3, 3), 7) == [[0, 1], [2, 3], [4]]
    assert taken_at_once(filled(3, 3, 3), 100) == [[0, 1, 2]]


def test_a_request_that_is_too_large_for_that_is_taken_by_itself():
    assert taken_at_once(filled(30, 3, 30, 3, 3), 7) == [[0], [1], [2], [3, 4]]
    assert taken_at_once(filled(3, 3), 0) == [[0], [1]]


def test_what_goes_alone_goes_alone_and_in_its_place():
    assert taken_at_once(filled(1, 1, 1, 1, 1, alone=(2,)), 100) == [[0, 1], [2], [3, 4]]
    assert taken_at_once(filled(1, 1, 1, alone=(0, 1)), 100) == [[0], [1], [2]]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=30), st.integers(0, 200))
def test_everything_is_taken_once_and_in_order(sizes, most_bytes):
    alone = tuple(i for i, (_, alone) in enumerate(sizes) if alone)
    found = taken_at_once(filled(*(size for size, _ in sizes), alone=alone), most_bytes)
    assert [number for some in found for number in some] == list(range(len(sizes)))
    for some in found:
        assert len(some) == 1 or sum(sizes[number][0] for number in some) <= most_bytes
        assert len(some) == 1 or not any(sizes[number][1] for number in some)


def test_a_sender_waits_for_what_is_queued_later():
    queue = SenderQueue()
    timer = threading.Timer(0.05, queue.put, [Queued(7, request(1))])
    timer.start()
    assert [each.number for each in queue.get(100)] == [7]
    timer.join()


def test_a_sender_sends_more_at_once_while_that_is_acknowledged_in_time():
    pace, sent = SenderPace(1 << 30), []
    for _ in range(6):
        size = max(2 * MB, int(pace.bytes))
        sent.append(size // MB)
        pace.acknowledged(size, 0.3)
    assert sent == [2, 4, 8, 16, 16, 16]
    assert pace.bytes == MOST_BYTES


def test_a_sender_sends_no_more_than_its_buffer_allows():
    pace = SenderPace(3 * MB)
    pace.acknowledged(2 * MB, 0.1)
    assert pace.bytes == 3 * MB


def test_to_a_slow_peer_cluster_a_sender_sends_one_request_at_a_time():
    pace = SenderPace(1 << 30)
    for _ in range(4):
        pace.acknowledged(2 * MB, 0.3)
    pace.acknowledged(4 * MB, 60.0)
    assert pace.bytes < 2 * MB
    for _ in range(10):
        pace.acknowledged(2 * MB, 20.0)
    assert pace.bytes < 2 * MB


def test_little_that_is_acknowledged_soon_takes_nothing_from_the_pace():
    pace = SenderPace(1 << 30)
    pace.acknowledged(8 * MB, 0.9)
    pace.acknowledged(100, 0.05)
    assert pace.bytes == 16 * MB
