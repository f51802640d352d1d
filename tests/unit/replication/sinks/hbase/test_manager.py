import random
from collections import Counter

import pytest

from walferry.hbase.names import ServerName
from walferry.replication.sinks.hbase.manager import NoSinks, SinkManager


def servers(count: int) -> list[ServerName]:
    return [ServerName(f"rs{i}", 16020, 1) for i in range(count)]


class PeerCluster:
    """Names its live servers, or fails."""

    def __init__(self, live):
        self.live = live
        self.listed = 0

    def __call__(self):
        self.listed += 1
        if isinstance(self.live, Exception):
            raise self.live
        return self.live


def manager(peer_cluster, *args, **options) -> SinkManager:
    random.seed(7)
    return SinkManager(peer_cluster, *args, **options)


@pytest.mark.parametrize(
    ("live", "ratio", "expected"), [(1, 0.1, 1), (10, 0.1, 1), (11, 0.1, 2), (100, 0.1, 10), (2, 0.5, 1), (3, 1.0, 3)]
)
def test_the_subset_is_the_ratio_rounded_up(live, ratio, expected):
    sinks = manager(PeerCluster(servers(live)), ratio)
    sinks.choose()
    assert len(sinks.sinks) == expected


@pytest.mark.parametrize("ratio", [0, -0.5, 1.01])
def test_an_impossible_ratio_is_refused(ratio):
    with pytest.raises(ValueError, match="must be over 0 and at most 1"):
        manager(PeerCluster(servers(1)), ratio)


def test_exactly_the_members_of_the_subset_are_chosen():
    sinks = manager(PeerCluster(servers(20)), 0.2)
    chosen = Counter(sinks.choose() for _ in range(400))
    assert set(chosen) == sinks.sinks
    assert min(chosen.values()) > 40


def test_a_redraw_lists_the_servers_and_brings_others():
    peer_cluster = PeerCluster(servers(100))
    sinks = manager(peer_cluster, 0.1)
    sinks.choose()
    before = sinks.sinks
    sinks.redraw()
    assert sinks.sinks != before
    assert peer_cluster.listed == 2


def test_a_server_leaves_the_subset_after_more_bad_reports_in_a_row_than_the_threshold():
    sinks = manager(PeerCluster(servers(2)), 1.0)
    bad = sinks.choose()
    for _ in range(3):
        sinks.report_bad(bad)
    assert bad in sinks.sinks
    sinks.report_good(bad)
    for _ in range(3):
        sinks.report_bad(bad)
    assert bad in sinks.sinks
    sinks.report_bad(bad)
    assert bad not in sinks.sinks


def test_a_server_that_does_not_answer_leaves_the_subset_at_once_and_is_avoided_for_a_while():
    now = [0.0]
    sinks = manager(PeerCluster(servers(3)), 0.1, clock=lambda: now[0])
    gone = sinks.choose()
    sinks.report_gone(gone)
    assert gone not in {sinks.choose() for _ in range(50) if sinks.redraw() is None}
    now[0] += 601
    assert gone in {sinks.choose() for _ in range(50) if sinks.redraw() is None}


def test_if_no_server_answers_they_are_tried_all_the_same():
    sinks = manager(PeerCluster(servers(3)), 0.1)
    for server in servers(3):
        sinks.report_gone(server)
    assert sinks.choose() in servers(3)


def test_a_server_that_acknowledges_again_is_not_avoided():
    sinks = manager(PeerCluster(servers(2)), 0.1)
    bad = sinks.choose()
    sinks.report_gone(bad)
    sinks.report_good(bad)
    assert bad in {sinks.choose() for _ in range(50) if sinks.redraw() is None}


def test_an_emptied_subset_is_drawn_anew():
    peer_cluster = PeerCluster(servers(1))
    sinks = manager(peer_cluster, 0.1)
    (only,) = servers(1)
    for _ in range(4):
        sinks.report_bad(sinks.choose())
    assert sinks.sinks == frozenset()
    assert sinks.choose() == only


def test_a_peer_cluster_without_live_servers_has_no_sinks():
    with pytest.raises(NoSinks, match="it has no live RegionServer"):
        manager(PeerCluster([]), 0.1).choose()


def test_a_peer_cluster_whose_servers_cannot_be_listed_has_no_sinks_and_the_reason_is_named():
    with pytest.raises(NoSinks, match="cannot be listed: no ZooKeeper server"):
        manager(PeerCluster(OSError("no ZooKeeper server of peer:2181 answered")), 0.1).choose()


def test_a_peer_cluster_whose_servers_can_no_longer_be_listed_keeps_the_known_ones():
    peer_cluster = PeerCluster(servers(1))
    sinks = manager(peer_cluster, 0.1)
    sinks.choose()
    peer_cluster.live = OSError("gone")
    sinks.redraw()
    assert sinks.choose() == servers(1)[0]


def test_a_peer_cluster_that_comes_back_is_found():
    peer_cluster = PeerCluster([])
    sinks = manager(peer_cluster, 0.1)
    with pytest.raises(NoSinks):
        sinks.choose()
    peer_cluster.live = servers(3)
    assert sinks.choose() in servers(3)


def test_servers_that_come_and_go_are_noticed_after_a_while():
    now = [0.0]
    peer_cluster = PeerCluster(servers(1))
    sinks = manager(peer_cluster, 1.0, clock=lambda: now[0])
    sinks.choose()
    peer_cluster.live = servers(3)
    now[0] = 59.9
    sinks.choose()
    assert len(sinks.sinks) == 1
    now[0] = 60.0
    sinks.choose()
    assert len(sinks.sinks) == 3


def test_the_subset_stays_while_the_servers_stay():
    now = [0.0]
    sinks = manager(PeerCluster(servers(100)), 0.1, clock=lambda: now[0])
    sinks.choose()
    before = sinks.sinks
    now[0] = 1000.0
    sinks.choose()
    assert sinks.sinks == before


def test_what_a_peer_cluster_says_when_it_cannot_be_listed_is_one_short_line():
    def fail():
        raise ValueError("a\nFAILED \x1b[31m" + "x" * 1_000_000)

    with pytest.raises(NoSinks) as error:
        SinkManager(fail, 0.5).choose()
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1100
