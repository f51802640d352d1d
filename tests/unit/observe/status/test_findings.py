"""The findings about a source, given its status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.observe.status.views import HOUR, MINUTE, NOW, SERVER, note, notes, peer, queue, view, wal
from walferry.base.findings import MAX_TEXT_CHARS
from walferry.engine.summary import Status
from walferry.hbase.files.space import Space
from walferry.observe.status.describing import describe, unreachable
from walferry.observe.status.findings import StatusKind, of_peer, of_source
from walferry.observe.status.model import SourceStatus
from walferry.observe.status.peer_clusters import PeerClusterStatus
from walferry.replication.retention.survey import Forecast, OldWalSurvey

DAY = 24 * HOUR
UP = {"p": PeerClusterStatus(True, None)}
DOWN = {"p": PeerClusterStatus(False, "rs-9: connection refused")}
BEHIND = queue(wal(NOW - 3 * HOUR, 100), wal(NOW - 2 * HOUR))
QUIET = queue(wal(NOW - MINUTE, 0))


def limited(seconds: str, **others: str) -> SourceStatus:
    config = {"walferry.managed": "true", "walferry.max_lag": seconds, **others}
    return describe(view(BEHIND, peers=(replace(peer(), config=config),)), peer_clusters=UP)


def kinds(status: SourceStatus) -> list[str]:
    return [finding.kind for finding in of_source(status, None, 7).findings]


def test_a_source_that_ships_has_no_findings() -> None:
    seen = of_source(describe(view(QUIET), peer_clusters=UP), None, 7)
    assert seen.findings == ()
    whats = ("peer p: stuck", "peer p: peer-down", "orphaned queues", "old-wals")
    assert [seen.has_seen(what) for what in whats] == [True, True, True, False]


def test_what_is_wrong_with_a_peer_is_told_with_its_name() -> None:
    failing = notes(note(Status.FAILED, 40 * MINUTE, error="bad\nWAL"))
    status = describe(view(BEHIND, notes=failing), peer_clusters=DOWN)
    findings = {finding.kind: finding.line for finding in of_source(status, None, 7).findings}
    assert set(findings) == {StatusKind.PEER_DOWN, StatusKind.FAILING, StatusKind.STUCK}
    assert findings[StatusKind.PEER_DOWN] == "peer p: peer-down: its peer cluster cannot be reached: rs-9: connection refused"
    assert findings[StatusKind.FAILING].startswith("peer p: failing: it has failed for ")
    assert "\n" not in findings[StatusKind.FAILING]
    assert max(map(len, findings.values())) <= MAX_TEXT_CHARS


def test_a_peer_is_behind_if_its_lag_may_be_larger_than_its_configuration_allows() -> None:
    assert StatusKind.BEHIND in kinds(limited("3600"))
    assert StatusKind.BEHIND not in kinds(limited("14400"))
    assert "its lag is at most 3 h, and 1 h are allowed" in [t.text for t in of_source(limited("3600"), None, 7).findings]
    (status,) = limited("14400").peers or ()
    assert StatusKind.BEHIND in [finding.kind for finding in of_peer(status, 60)], "a limit that is asked for wins"


def test_a_limit_that_makes_no_sense_is_told() -> None:
    (finding,) = [each for each in of_source(limited("soon"), None, 7).findings if each.kind is StatusKind.BEHIND]
    assert "walferry.max_lag is 'soon'; it must be a number of seconds from 1 to" in finding.text


def test_an_age_that_is_not_known_is_not_within_a_limit() -> None:
    config = {"walferry.managed": "true", "walferry.max_lag": "3600"}
    odd = queue(wal(NOW - MINUTE), problems=("znode x makes no sense",))
    status = describe(view(odd, peers=(replace(peer(), config=config),)), peer_clusters=UP)
    assert [each.text for each in of_source(status, None, 7).findings] == [
        "its lag is unknown (znode x makes no sense), and 1 h are allowed"
    ]


def test_a_paused_peer_and_one_of_hbase_are_left_out() -> None:
    assert kinds(limited("60", **{"walferry.paused": "true"})) == []
    assert kinds(describe(view(BEHIND, peers=(peer(managed=False),)), peer_clusters=DOWN)) == []


def test_queues_of_peers_that_do_not_exist_are_one_finding() -> None:
    seen = of_source(describe(view(QUIET, queue(wal(NOW - HOUR), queue_id="gone")), peer_clusters=UP), None, 7)
    (finding,) = seen.findings
    assert (finding.kind, finding.what) == (StatusKind.ORPHANED, "orphaned queues")
    assert f"1 queue with 1 WAL are of peers that do not exist, and nothing ships them: {SERVER}/gone" in finding.line


@pytest.mark.parametrize(("days", "expected"), [(3, [StatusKind.OLD_WALS]), (30, [])], ids=["soon", "late"])
def test_a_disk_that_is_full_soon_is_a_finding(days: int, expected: list[StatusKind]) -> None:
    old_wals = OldWalSurvey(NOW / 1000, forecast=Forecast(1.0, 1.0, Space(1 << 40, days * DAY // 1000)))
    seen = of_source(describe(view(QUIET), peer_clusters=UP), old_wals, 7)
    assert [finding.kind for finding in seen.findings] == expected
    assert seen.has_seen("old-wals")


def test_nothing_is_known_of_what_could_not_be_seen() -> None:
    seen = of_source(unreachable("ZooKeeper at zk1 is silent", NOW / 1000), None, 7)
    assert [finding.line for finding in seen.findings] == ["unreachable: the source cannot be read: ZooKeeper at zk1 is silent"]
    whats = ("unreachable", "peer p: stuck", "orphaned queues", "old-wals")
    assert [seen.has_seen(what) for what in whats] == [True, False, False, False]
    asked = of_source(describe(view(QUIET)), OldWalSurvey(NOW / 1000, "it cannot be listed"), 7)
    assert [asked.has_seen(what) for what in ("peer p: peer-down", "peer p: stuck", "old-wals")] == [False, True, False]
    blind = of_source(describe(view(queues=None, problems=("znode /rs: no",))), None, 7)
    assert [finding.line for finding in blind.findings] == ["unreachable: the source's queues cannot be read: znode /rs: no"]
    whats = ("peer p: stuck", "peer p: failing", "orphaned queues", "peer p: behind")
    assert [blind.has_seen(what) for what in whats] == [False, False, False, True]


def test_peers_that_cannot_be_read_are_told() -> None:
    none = replace(view(), peers=None, queues=None)
    (finding,) = of_source(describe(none), None, 7).findings
    assert finding.line == "unreachable: the source's peers and queues cannot be read: they are not there"
    one = replace(view(), peers={"p": None, "q": None}, problems=("znode /peers/q: junk",))
    reported = [each.line for each in of_source(describe(one), None, 7).findings]
    assert reported == [
        "peer p: refused: its configuration cannot be read: `walferry check` says more",
        "peer q: refused: its configuration cannot be read: znode /peers/q: junk",
    ]
