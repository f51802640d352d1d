"""How much of what waits in a sender is sent at once."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from walferry.engine.sender_queue import MOST_BYTES, Queued, SenderPace, SenderQueue

MB = 1 << 20


def request(size: int) -> Any:
    return SimpleNamespace(size=size)


def filled(*sizes: int, alone: tuple[int, ...] = ()) -> SenderQueue:
    queue = SenderQueue()
    for number, size in enumerate(sizes):
        queue.put(Queued(number, request(size), number in alone))
    queue.end()
    return queue


def taken(queue: SenderQueue, most_bytes: float) -> list[list[int]]:
    """The numbers of what is taken at once, until nothing is left."""
    found = []
    while some := queue.get(most_bytes):
        found.append([each.number for each in some])
    return found


def test_what_has_been_queued_meanwhile_is_taken_at_once_as_far_as_it_fits():
    assert taken(filled(3, 3, 3, 3, 3), 7) == [[0, 1], [2, 3], [4]]
    assert taken(filled(3, 3, 3), 100) == [[0, 1, 2]]


def test_a_request_that_is_too_large_for_that_is_taken_by_itself():
    assert taken(filled(30, 3, 30, 3, 3), 7) == [[0], [1], [2], [3, 4]]
    assert taken(filled(3, 3), 0) == [[0], [1]]


def test_what_goes_alone_goes_alone_and_in_its_place():
    assert taken(filled(1, 1, 1, 1, 1, alone=(2,)), 100) == [[0, 1], [2], [3, 4]]
    assert taken(filled(1, 1, 1, alone=(0, 1)), 100) == [[0], [1], [2]]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=30), st.integers(0, 200))
def test_everything_is_taken_once_and_in_order(sizes, most_bytes):
    alone = tuple(i for i, (_, alone) in enumerate(sizes) if alone)
    found = taken(filled(*(size for size, _ in sizes), alone=alone), most_bytes)
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


def test_to_a_slow_slave_a_sender_sends_one_request_at_a_time():
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
