"""The skew of servers' clocks, from the times of their reports to the master."""

from __future__ import annotations

from walferry.verification.clocks import MEASURE_SECONDS, measure


class Cluster:
    """Servers that report every 3 s, each by a clock that is ahead by so many seconds. Each answer takes 10 ms."""

    def __init__(self, ahead: dict[str, float], interval: float = 3.0) -> None:
        self.now = 1_000_000.0
        self._ahead = ahead
        self._interval = interval

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def ask(self) -> dict[str, int]:
        self.now += 0.01
        every = self._interval
        made = {name: (self.now + number) // every * every - number for number, name in enumerate(self._ahead)}
        return {name: int((made[name] + ahead) * 1000) for name, ahead in self._ahead.items()}


def test_the_true_skew_lies_within_the_bounds():
    cluster = Cluster({"a": 0.0, "b": 12.345, "c": -3600.0})
    found = {skew.server: skew for skew in measure(cluster.ask, cluster.clock, cluster.sleep)}
    for server, ahead in (("a", 0), ("b", 12_345), ("c", -3_600_000)):
        assert abs(found[server].ahead_ms - ahead) <= found[server].within_ms <= 100
    assert cluster.now - 1_000_000 < 4


def test_a_server_that_does_not_report_is_left_out():
    cluster = Cluster({"a": 0.0}, interval=10_000.0)
    assert measure(cluster.ask, cluster.clock, cluster.sleep) == []
    assert cluster.now - 1_000_000 >= MEASURE_SECONDS
