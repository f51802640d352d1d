"""A peer's bandwidth, shared by all groups that ship it at once: bytes counted against a clock that the tests move."""

from __future__ import annotations

import random
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.engine.bandwidth import IDLE_SECONDS, LEAST_SHIPMENT_BYTES, SETTLE_SECONDS, SHARE_SECONDS, Limit, Sharers, Throttle
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.errors import Stopped

BANDWIDTH = 1_000_000
TICK_SECONDS = 0.05


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.stopped = False

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.stopped


@dataclass
class Groups:
    """Groups that share, as they are in ZooKeeper."""

    tokens: set[object] = field(default_factory=set)

    def one(self) -> OneOf:
        return OneOf(self)


@dataclass(eq=False)
class OneOf(Sharers):
    groups: Groups

    def join(self) -> int:
        self.groups.tokens.add(self)
        return self.count()

    def leave(self) -> None:
        self.groups.tokens.discard(self)

    def count(self) -> int:
        return len(self.groups.tokens) if self in self.groups.tokens else 0


@dataclass
class Task:
    """The Spark task of a group that has `left` bytes to ship from `begins` on, and looks every `looks` seconds."""

    begins: float
    left: int
    looks: float = 0.1
    sent: list[tuple[float, int]] = field(default_factory=list)
    limit: Limit | None = None
    next: int = 1_000
    looked: float = 0.0
    sending: ExitStack = field(default_factory=ExitStack)


def ship(tasks: list[Task], seed: int = 1) -> tuple[list[tuple[float, int]], float]:
    """Ship all tasks, each request as soon as its throttle lets it pass. Returns all requests with their times, and the end."""
    clock, chance, groups = Clock(), random.Random(seed), Groups()
    start = clock.now
    while any(task.left for task in tasks):
        for task in tasks:
            if task.limit is None and clock.now - start >= task.begins:
                task.limit = Limit(BANDWIDTH, groups.one(), threading.Event(), clock=clock, wait=clock.wait)
                task.sending.enter_context(task.limit.sending())
            if task.limit is None:
                continue
            if clock.now - task.looked >= task.looks:
                task.looked = clock.now
                task.limit.look()
            while task.left and task.limit.throttle.pause(task.next) == 0.0:
                task.sent.append((clock.now - start, task.next))
                task.left -= task.next
                task.next = min(task.left, chance.choice([1_000, 50_000, 400_000]))
            if not task.left:
                task.sending.close()
        clock.now += TICK_SECONDS
    return sorted(request for task in tasks for request in task.sent), clock.now - start


def never_more(sent: list[tuple[float, int]]) -> bool:
    """Return whether at no moment more bytes had been sent than the bandwidth allows since the beginning."""
    return all(total <= BANDWIDTH * at for (at, _), total in zip(sent, accumulate(size for _, size in sent), strict=True))


def most_in(sent: list[tuple[float, int]], seconds: float) -> int:
    """The most bytes that were sent in any period of this length."""
    return max(sum(size for at, size in sent if first <= at < first + seconds) for first in {at for at, _ in sent})


@pytest.mark.parametrize("groups", [1, 2, 7])
def test_groups_that_ship_side_by_side_together_keep_to_the_bandwidth(groups):
    total = 12_000_000
    sent, seconds = ship([Task(0.0, total // groups) for _ in range(groups)])
    assert sum(size for _, size in sent) == total // groups * groups
    assert never_more(sent)
    assert most_in(sent, 5.0) <= 5.1 * BANDWIDTH + groups * 400_000
    assert total / BANDWIDTH <= seconds <= 1.05 * total / BANDWIDTH + SETTLE_SECONDS + IDLE_SECONDS


@pytest.mark.parametrize("seed", range(20))
def test_groups_that_come_and_go_and_look_late_never_exceed_the_bandwidth(seed):
    chance = random.Random(seed)
    tasks = [
        Task(chance.uniform(0, 20), chance.randrange(1, 5_000_000), looks=chance.choice([0.1, 0.1, 1.0, 5.0])) for _ in range(8)
    ]
    tasks[0].begins = 0.0
    sent, _ = ship(tasks, seed)
    assert never_more(sent)


def test_a_group_that_has_nothing_to_send_takes_no_share():
    """It may be loading its kernels, reading what the peer does not get, or copying WALs to the archive."""
    clock, groups = Clock(), Groups()
    busy, idle = (Limit(BANDWIDTH, groups.one(), threading.Event(), clock=clock, wait=clock.wait) for _ in range(2))
    with busy.sending():
        for _ in range(50):
            for limit in (busy, idle):
                limit.look()
            clock.now += 0.1
        assert len(groups.tokens) == 1
        assert busy.throttle.pause(5_000_000 - 200_000) == 0.0


def test_a_share_that_is_not_renewed_ends():
    clock, groups = Clock(), Groups()
    limit = Limit(BANDWIDTH, groups.one(), threading.Event(), clock=clock, wait=clock.wait)
    with limit.sending():
        limit.look()
        clock.now += 3600
        assert limit.throttle.pause(int(SETTLE_SECONDS * BANDWIDTH) + 1) > 0
        assert limit.throttle.pause(int(SETTLE_SECONDS * BANDWIDTH)) == 0.0


def test_a_group_whose_session_has_expired_joins_the_others_again():
    clock, groups = Clock(), Groups()
    limits = [Limit(BANDWIDTH, groups.one(), threading.Event(), clock=clock, wait=clock.wait) for _ in range(2)]
    with limits[0].sending(), limits[1].sending():
        for limit in limits:
            limit.look()
        (expired,) = [token for token in groups.tokens if token is limits[1]._sharers]
        groups.tokens.discard(expired)
        clock.now += SHARE_SECONDS
        limits[1].look()
        assert len(groups.tokens) == 2
        assert limits[1].throttle.pause(1) > 0


def test_a_group_that_begins_or_ends_changes_the_others_shares():
    long, short = Task(0.0, 20_000_000), Task(5.0, 2_000_000)
    sent, seconds = ship([long, short])
    assert never_more(sent)
    assert most_in(sent, 4.0) <= 4.1 * BANDWIDTH + 2 * 400_000
    assert short.sent[0][0] >= 5.0 + 1.0  # it lets the other one see it first
    both = [size for at, size in long.sent if 7.0 <= at < short.sent[-1][0]]
    assert sum(both) <= 0.6 * BANDWIDTH * (short.sent[-1][0] - 7.0) + 400_000
    after = [size for at, size in long.sent if at >= short.sent[-1][0] + 1.5]
    assert sum(after) >= 0.95 * BANDWIDTH * (seconds - short.sent[-1][0] - 1.5)


def test_what_was_not_sent_while_nothing_was_there_is_not_caught_up():
    clock = Clock()
    throttle = Throttle(1000, threading.Event(), clock=clock, wait=clock.wait)
    clock.now += 3600
    begun = clock.now
    for _ in range(11):
        throttle.take(1000, begun + 100)
    assert clock.now - begun == pytest.approx(9.9, abs=0.02)


def test_a_request_waits_for_its_bytes_but_not_beyond_the_deadline():
    clock = Clock()
    throttle = Throttle(1000, threading.Event(), clock=clock, wait=clock.wait)
    throttle.take(500, clock.now + 60)
    assert clock.now == pytest.approx(1000.5, abs=0.01)
    throttle.take(1_000_000, clock.now + 2.0)
    assert clock.now == pytest.approx(1002.5, abs=0.01)


def test_a_waiting_request_takes_a_new_rate_into_account():
    clock = Clock()
    throttle = Throttle(0, threading.Event(), clock=clock)

    def wait(seconds: float) -> bool:
        clock.wait(seconds)
        if clock.now >= 1005.0:
            throttle.set_rate(1000)
        return False

    throttle._wait = wait
    throttle.take(1000, clock.now + 60)
    assert clock.now == pytest.approx(1006.0, abs=0.01)


def test_stopping_ends_the_wait():
    clock = Clock()
    clock.stopped = True
    throttle = Throttle(1, threading.Event(), clock=clock, wait=clock.wait)
    with pytest.raises(Stopped):
        throttle.take(1000, clock.now + 60)


def test_requests_pass_one_limit_from_all_senders():
    clock, sent = Clock(), list[Any]()
    limit = Limit(1000, Groups().one(), threading.Event(), clock=clock, wait=clock.wait)
    with limit.sending():
        limit.look()
    for number in range(4):
        limit.look()
        request: Any = SimpleNamespace(size=500, number=number)
        limit.send(lambda requests, deadline: sent.append((requests[0].number, clock.now)), [request], 2e3)
    assert sent == [(number, pytest.approx(1000.5 + 0.5 * number, abs=0.01)) for number in range(4)]


def test_requests_that_a_sender_has_together_pass_one_by_one():
    clock, sent = Clock(), list[Any]()
    limit = Limit(1000, Groups().one(), threading.Event(), clock=clock, wait=clock.wait)
    with limit.sending():
        limit.look()
    limit.look()
    requests: Any = [SimpleNamespace(size=500) for _ in range(3)]
    limit.send(lambda some, deadline: sent.append((len(some), clock.now)), requests, 2e3)
    assert sent == [(1, pytest.approx(1000.5 + 0.5 * number, abs=0.01)) for number in range(3)]


@pytest.mark.parametrize(
    ("bandwidth", "size"), [(0, PeerSettings().shipment_bytes), (1, LEAST_SHIPMENT_BYTES), (100_000, 25_000), (1 << 40, 2 << 20)]
)
def test_a_request_of_a_slow_peer_is_small(bandwidth, size):
    assert Limit(bandwidth, Groups().one(), threading.Event()).settings(PeerSettings()).shipment_bytes == size


def test_a_peer_without_bandwidth_waits_for_nothing():
    clock, sent = Clock(), list[int]()
    groups = Groups()
    limit = Limit(0, groups.one(), threading.Event(), clock=clock, wait=clock.wait)
    limit.look()
    request: Any = SimpleNamespace(size=1 << 40)
    limit.send(lambda requests, deadline: sent.append(requests[0].size), [request], 2e3)
    assert (sent, clock.now, groups.tokens) == ([1 << 40], 1000.0, set())
