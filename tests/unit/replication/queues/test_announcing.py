"""Closed WALs are announced soon, seldom, and until they are gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.replication.queues.announcing import AGAIN_SECONDS, APART_SECONDS, MAX_AGAIN_SECONDS, Announcements, WaitingWals


def wals(*timestamps: int, group: str = "g") -> WaitingWals:
    """The closed WALs of a live server's group."""
    return WaitingWals(len(timestamps), {group: max(timestamps)}, {group: min(timestamps)}) if timestamps else WaitingWals()


def of_dead_server(*timestamps: int) -> WaitingWals:
    return WaitingWals(len(timestamps), {}, {"dead": min(timestamps)})


@pytest.fixture
def told() -> Announcements:
    return Announcements()


def test_a_closed_wal_is_announced_at_once_and_only_once(told: Announcements) -> None:
    assert told.pause(0) is None
    assert told.look(0, {"p": wals(1), "q": wals()}, ()) == {"p": 1}
    assert told.look(20, {"p": wals(1)}, ()) == {}
    assert told.pause(20) == AGAIN_SECONDS - 20


def test_wals_that_are_closed_before_a_run_has_begun_are_left_to_it(told: Announcements) -> None:
    told.look(0, {"p": wals(1)}, ())
    assert told.look(20, {"p": wals(1, 2, 3)}, ()) == {}
    assert told.look(25, {"p": wals(2, 3)}, ()) == {"p": 2}  # it has taken one, and may not have seen the others


def test_a_peer_that_a_run_holds_is_announced_when_the_run_has_ended_with_wals_left(told: Announcements) -> None:
    told.look(0, {"p": wals(1)}, ())
    assert told.look(20, {"p": wals(1, 2)}, ["p"]) == {}
    assert told.look(30, {"p": wals(2)}, ["p"]) == {}
    assert told.look(31, {"p": wals(2)}, ()) == {"p": 1}
    assert told.look(50, {"p": wals()}, ["p"]) == {}
    assert told.look(51, {"p": wals()}, ()) == {}
    assert told.pause(51) is None


def test_what_a_run_of_before_this_process_holds_is_announced_after_it(told: Announcements) -> None:
    assert told.look(0, {"p": wals(1)}, ["p"]) == {}
    assert told.look(5, {"p": wals(1)}, ()) == {"p": 1}


def test_peers_whose_wals_are_closed_soon_after_one_another_wait_for_one_announcement(told: Announcements) -> None:
    assert told.look(0, {"p": wals(1)}, ()) == {"p": 1}
    assert told.look(1, {"p": wals(1), "q": wals(1)}, ()) == {}
    assert told.pause(1) == APART_SECONDS - 1
    waiting = {"p": wals(1), "q": wals(1), "r": wals(1, 2)}
    assert told.look(2, waiting, ()) == {}
    assert told.look(APART_SECONDS, waiting, ()) == {"q": 1, "r": 2}


def test_an_announcement_without_effect_is_repeated_ever_more_seldom_also_while_wals_are_closed(told: Announcements) -> None:
    now, pauses, last = 0.0, [], 0.0
    told.look(now, {"p": wals(1)}, ())
    newest = 1
    while now < 4 * 3600:
        now, newest = now + 5, newest + 1
        if told.look(now, {"p": wals(1, newest)}, ()):
            pauses.append(now - last)
            last = now
    assert pauses[:4] == [AGAIN_SECONDS, 2 * AGAIN_SECONDS, 4 * AGAIN_SECONDS, 8 * AGAIN_SECONDS]
    assert set(pauses[4:]) == {MAX_AGAIN_SECONDS}
    assert told.look(now + 5, {"p": wals(2, newest)}, ()) == {"p": 2}  # a run has shipped something
    assert told.look(now + 5 + AGAIN_SECONDS, {"p": wals(2, newest)}, ()) == {"p": 2}  # counted anew


def test_dead_servers_wals_have_a_recovery_s_time_and_keep_no_other_ones_back(told: Announcements) -> None:
    assert told.look(0, {"p": of_dead_server(1)}, ()) == {}
    assert told.pause(0) == AGAIN_SECONDS
    assert told.look(20, {"p": of_dead_server(1) | wals(5)}, ()) == {"p": 2}
    fresh = Announcements()
    fresh.look(0, {"p": of_dead_server(1)}, ())
    assert fresh.look(AGAIN_SECONDS, {"p": of_dead_server(1)}, ()) == {"p": 1}


def test_a_roll_is_announced_with_all_peers_and_what_it_closes_is_left_to_its_run(told: Announcements) -> None:
    assert told.look(0, {"p": wals(), "q": wals(1)}, (), roll=True) == {"p": 0, "q": 1}
    assert told.look(15, {"p": wals(5), "q": wals(1, 5)}, ()) == {}
    assert told.look(20, {"p": wals(), "q": wals(5)}, ()) == {"q": 1}  # the run may not have seen its last one
    assert told.look(35, {"p": wals(7), "q": wals()}, ()) == {"p": 1}  # closed after that run


def test_what_a_roll_has_closed_is_announced_if_no_run_comes(told: Announcements) -> None:
    told.look(0, {"p": wals()}, (), roll=True)
    assert told.pause(0) is None
    assert told.look(10, {"p": wals(5)}, ()) == {}
    assert told.pause(10) == AGAIN_SECONDS - 10
    assert told.look(AGAIN_SECONDS, {"p": wals(5)}, ()) == {"p": 1}


def test_a_roll_tries_no_peer_that_a_run_holds_or_that_has_failed_a_moment_ago(told: Announcements) -> None:
    told.look(0, {"p": wals(1)}, ())
    waiting = {"p": wals(1), "q": wals(), "held": wals(1)}
    assert told.look(30, waiting, ["held"], roll=True) == {"q": 0}
    assert told.look(AGAIN_SECONDS + 10, {"p": wals(1), "q": wals(), "held": wals(1)}, ["held"], roll=True) == {"p": 1, "q": 0}
    assert told.look(2 * AGAIN_SECONDS, {"p": wals(1), "q": wals(), "held": wals(1, 2)}, ()) == {"held": 2}


def test_two_queues_of_a_group_count_as_one() -> None:
    assert wals(3, 7) | wals(1, 2) == WaitingWals(4, {"g": 7}, {"g": 1})
    assert wals(3) | wals(4, group="h") == WaitingWals(2, {"g": 3, "h": 4}, {"g": 3, "h": 4})


@dataclass
class World:
    """A source with three peers, whose runs begin some time after an announcement, and take what they see then."""

    told: Announcements = field(default_factory=Announcements)
    now: float = 0.0
    closed: dict[str, list[int]] = field(default_factory=lambda: {"p": [], "q": [], "r": []})
    taken: dict[str, list[int]] = field(default_factory=dict)  # by the runs that hold peers
    at: list[tuple[float, list[str]]] = field(default_factory=list)  # what was announced when
    number: int = 0

    def look(self) -> None:
        waiting = {peer: wals(*each) for peer, each in self.closed.items()}
        if found := self.told.look(self.now, waiting, self.taken.keys()):
            assert found.keys().isdisjoint(self.taken)
            assert all(count == len(self.closed[peer]) > 0 for peer, count in found.items())
            self.at.append((self.now, sorted(found)))

    def close(self, peer: str) -> None:
        self.number += 1
        self.closed[peer].append(self.number)

    def begin(self, peer: str) -> None:
        self.taken.setdefault(peer, list(self.closed[peer]))

    def end(self, peer: str, *, ships: bool) -> None:
        took = self.taken.pop(peer, [])
        if ships:
            self.closed[peer] = [each for each in self.closed[peer] if each not in took]

    def wait(self, seconds: float) -> None:
        """Let time pass, and look when a look is due."""
        until = self.now + seconds
        while (pause := self.told.pause(self.now)) is not None and self.now + pause < until:
            self.now += max(pause, 0.001)
            self.look()
        self.now = max(self.now, until)


PEERS = st.sampled_from(["p", "q", "r"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("close"), PEERS),
        st.tuples(st.just("begin"), PEERS),
        st.tuples(st.just("ship"), PEERS),
        st.tuples(st.just("fail"), PEERS),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 3.0, 11.0, 40.0, 700.0])),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_announcements_keep_apart_and_nothing_is_forgotten(steps: list[tuple[str, object]]) -> None:
    world = World()
    for what, value in steps:
        if what == "wait":
            assert isinstance(value, float)
            world.wait(value)
        else:
            peer = str(value)
            if what in ("close", "begin"):
                getattr(world, what)(peer)
            else:
                world.end(peer, ships=what == "ship")
            world.look()
    times = [at for at, _ in world.at]
    assert all(after - before >= APART_SECONDS for before, after in pairwise(times))
    for peer in list(world.taken):
        world.end(peer, ships=False)
    world.look()
    left = {peer for peer, each in world.closed.items() if each}
    began = world.now
    world.wait(MAX_AGAIN_SECONDS + 2 * APART_SECONDS)
    told = {peer for at, peers in world.at for peer in peers if at >= began}
    assert left <= told


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=40), st.floats(2.0, 30.0))
def test_a_burst_begins_few_runs_and_its_last_wal_is_announced_soon(gaps: list[float], takes: float) -> None:
    world = World()
    for gap in gaps:
        world.wait(gap)
        world.close("p")
        world.look()
    burst = world.now
    assert len(world.at) <= 1 + burst / AGAIN_SECONDS  # no run has begun meanwhile
    world.begin("p")
    world.look()
    world.close("p")
    world.look()
    world.wait(takes)
    world.end("p", ships=True)
    world.look()
    released = world.now
    world.wait(APART_SECONDS)
    assert world.closed["p"]
    assert [at for at, peers in world.at if released <= at <= released + APART_SECONDS] != []
