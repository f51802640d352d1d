"""How long a start waits for servers, and how a start differs from a failover."""

from __future__ import annotations

import pytest

from walferry.hbase.names import ServerName
from walferry.master import startup
from walferry.master.decide import Servers
from walferry.master.reconcile import ClusterView
from walferry.master.startup import ANSWER_SECONDS, SETTLED_SECONDS, WAIT_SECONDS, first_look, wait_for_servers, why_not_startup
from walferry.master.znodes import META_ENCODED_NAME

A, B, C = (ServerName(f"rs{i}", 16020, i) for i in range(3))


class Arrivals:
    """Servers that come at given seconds, on a clock that only sleeps move."""

    def __init__(self, *times: float) -> None:
        self.times, self.now = times, 0.0

    def live(self) -> frozenset[ServerName]:
        return frozenset(server for server, time in zip((A, B, C), self.times, strict=False) if time <= self.now)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, minimum: int, give_up_seconds: float = 60.0) -> tuple[int, float]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(startup, "time", self)
            return len(wait_for_servers(self.live, minimum, give_up_seconds)), self.now


def test_a_start_waits_until_no_more_servers_come() -> None:
    count, now = Arrivals(0.0, 4.0, 5.0).wait(minimum=1)
    assert (count, now) == (3, pytest.approx(5.0 + SETTLED_SECONDS, abs=0.2))


def test_a_start_waits_some_seconds_in_any_case() -> None:
    assert Arrivals(0.0).wait(minimum=1)[1] == pytest.approx(WAIT_SECONDS, abs=0.2)


def test_a_start_waits_for_its_minimum_but_not_for_ever() -> None:
    assert Arrivals(0.0, 20.0).wait(minimum=2) == (2, pytest.approx(20.0 + SETTLED_SECONDS, abs=0.2))
    assert Arrivals(0.0).wait(minimum=2, give_up_seconds=30.0) == (1, pytest.approx(30.0, abs=0.2))


def view(online: dict[ServerName, set[str]], live: frozenset[ServerName] = frozenset({A, B})) -> ClusterView:
    answers = {server: frozenset(regions) for server, regions in online.items()}
    return ClusterView(Servers(live, frozenset()), answers, {}, {}, {}, live - answers.keys(), [])


def test_a_start_is_one_where_all_servers_say_that_they_serve_nothing() -> None:
    assert not why_not_startup(view({A: set(), B: {META_ENCODED_NAME}}))
    assert "serves region x" in why_not_startup(view({A: set(), B: {"x"}}))
    assert "has not said" in why_not_startup(view({A: set()}))
    assert "no live server" in why_not_startup(view({}, frozenset()))


def test_a_start_looks_again_until_all_servers_answer_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Arrivals()
    monkeypatch.setattr(startup, "time", clock)
    silent, answered = view({A: set()}), view({A: set(), B: set()})
    assert first_look(lambda: answered if clock.now > 3.0 else silent) is answered
    assert clock.now == pytest.approx(3.0, abs=0.2)
    assert first_look(lambda: silent) is silent
    assert clock.now == pytest.approx(3.0 + ANSWER_SECONDS, abs=0.2)
