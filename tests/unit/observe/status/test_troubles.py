"""What is wrong with a source, given its status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.observe.status.views import HOUR, MINUTE, NOW, SERVER, note, notes, peer, queue, view, wal
from walferry.engine.summary import Status
from walferry.observe.status.describing import describe, unreachable
from walferry.observe.status.model import SourceStatus
from walferry.observe.status.old_wals import OldWalsStatus
from walferry.observe.status.slaves import SlaveStatus
from walferry.observe.status.troubles import MAX_TEXT_CHARS, TroubleKind, of_peer, of_source

DAY = 24 * HOUR
UP = {"p": SlaveStatus(True, None)}
DOWN = {"p": SlaveStatus(False, "rs-9: connection refused")}
BEHIND = queue(wal(NOW - 3 * HOUR, 100), wal(NOW - 2 * HOUR))
QUIET = queue(wal(NOW - MINUTE, 0))


def limited(seconds: str, **others: str) -> SourceStatus:
    config = {"walferry.managed": "true", "walferry.max_lag": seconds, **others}
    return describe(view(BEHIND, peers=(replace(peer(), config=config),)), slaves=UP)


def kinds(status: SourceStatus) -> list[TroubleKind]:
    return [trouble.kind for trouble in of_source(status, None, 7).troubles]


def test_a_source_that_ships_has_no_troubles() -> None:
    looked = of_source(describe(view(QUIET), slaves=UP), None, 7)
    assert looked.troubles == ()
    assert [looked.has_seen(kind) for kind in ("stuck:p", "slave-down:p", "orphaned", "old-wals")] == [True, True, True, False]


def test_what_is_wrong_with_a_peer_is_told_with_its_name() -> None:
    failing = notes(note(Status.FAILED, 40 * MINUTE, error="bad\nWAL"))
    status = describe(view(BEHIND, notes=failing), slaves=DOWN)
    troubles = {trouble.kind: trouble.line for trouble in of_source(status, None, 7).troubles}
    assert set(troubles) == {TroubleKind.SLAVE_DOWN, TroubleKind.FAILING, TroubleKind.STUCK}
    assert troubles[TroubleKind.SLAVE_DOWN] == "peer p: its slave cannot be reached: rs-9: connection refused"
    assert troubles[TroubleKind.FAILING].startswith("peer p: it has failed for ")
    assert "\n" not in troubles[TroubleKind.FAILING]
    assert max(map(len, troubles.values())) <= MAX_TEXT_CHARS


def test_a_peer_is_behind_if_its_lag_may_be_larger_than_its_configuration_allows() -> None:
    assert TroubleKind.BEHIND in kinds(limited("3600"))
    assert TroubleKind.BEHIND not in kinds(limited("14400"))
    assert "its lag is at most 3 h, and 1 h are allowed" in [t.text for t in of_source(limited("3600"), None, 7).troubles]
    (status,) = limited("14400").peers or ()
    assert TroubleKind.BEHIND in [trouble.kind for trouble in of_peer(status, 60)], "a limit that is asked for wins"


def test_a_limit_that_makes_no_sense_is_told() -> None:
    (trouble,) = [each for each in of_source(limited("soon"), None, 7).troubles if each.kind is TroubleKind.BEHIND]
    assert "walferry.max_lag is 'soon'; it must be a number of seconds from 1 to" in trouble.text


def test_an_age_that_is_not_known_is_not_within_a_limit() -> None:
    config = {"walferry.managed": "true", "walferry.max_lag": "3600"}
    odd = queue(wal(NOW - MINUTE), problems=("znode x makes no sense",))
    status = describe(view(odd, peers=(replace(peer(), config=config),)), slaves=UP)
    assert [each.text for each in of_source(status, None, 7).troubles] == [
        "its lag is unknown (znode x makes no sense), and 1 h are allowed"
    ]


def test_a_paused_peer_and_one_of_hbase_are_left_out() -> None:
    assert kinds(limited("60", **{"walferry.paused": "true"})) == []
    assert kinds(describe(view(BEHIND, peers=(peer(managed=False),)), slaves=DOWN)) == []


def test_queues_of_peers_that_do_not_exist_are_one_trouble() -> None:
    looked = of_source(describe(view(QUIET, queue(wal(NOW - HOUR), queue_id="gone")), slaves=UP), None, 7)
    (trouble,) = looked.troubles
    assert (trouble.kind, trouble.key) == (TroubleKind.ORPHANED, "orphaned")
    assert f"1 queue with 1 WAL are of peers that do not exist, and nothing ships them: {SERVER}/gone" in trouble.line


@pytest.mark.parametrize(("days", "expected"), [(3, [TroubleKind.OLD_WALS]), (30, [])], ids=["soon", "late"])
def test_a_disk_that_is_full_soon_is_a_trouble(days: int, expected: list[TroubleKind]) -> None:
    old_wals = OldWalsStatus(NOW, None, remaining=1, bytes_per_second=1.0, full_ms=NOW + days * DAY)
    looked = of_source(describe(view(QUIET), slaves=UP), old_wals, 7)
    assert [trouble.kind for trouble in looked.troubles] == expected
    assert looked.has_seen("old-wals")


def test_nothing_is_known_of_what_could_not_be_seen() -> None:
    looked = of_source(unreachable("ZooKeeper at zk1 is silent", NOW / 1000), None, 7)
    assert [trouble.line for trouble in looked.troubles] == ["the source cannot be looked at: ZooKeeper at zk1 is silent"]
    assert [looked.has_seen(key) for key in ("unreachable", "stuck:p", "orphaned", "old-wals")] == [True, False, False, False]
    asked = of_source(describe(view(QUIET)), OldWalsStatus(NOW, "it cannot be listed"), 7)
    assert [asked.has_seen(key) for key in ("slave-down:p", "stuck:p", "old-wals")] == [False, True, False]
    blind = of_source(describe(view(queues=None, problems=("znode /rs: no",))), None, 7)
    assert [trouble.line for trouble in blind.troubles] == ["the source's queues cannot be read: znode /rs: no"]
    assert [blind.has_seen(key) for key in ("stuck:p", "failing:p", "orphaned", "behind:p")] == [False, False, False, True]


def test_peers_that_cannot_be_read_are_told() -> None:
    none = replace(view(), peers=None, queues=None)
    (trouble,) = of_source(describe(none), None, 7).troubles
    assert trouble.line == "the source's peers and queues cannot be read: they are not there"
    one = replace(view(), peers={"p": None, "q": None}, problems=("znode /peers/q: junk",))
    told = [each.line for each in of_source(describe(one), None, 7).troubles]
    assert told == [
        "peer p: its configuration cannot be read: `walferry check` tells more",
        "peer q: its configuration cannot be read: znode /peers/q: junk",
    ]
