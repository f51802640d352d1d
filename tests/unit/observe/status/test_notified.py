"""People are notified of a finding at once, then after growing intervals, and of its end once."""

from __future__ import annotations

import json

import pytest

from walferry.base.findings import wrong
from walferry.observe.status.findings import StatusFindings, StatusKind
from walferry.observe.status.notified import AGAIN_SECONDS, MAX_NOTIFIED, Notified, from_json, notifications, to_json

NOW = 1_800_000_000.0
STUCK = wrong(StatusKind.STUCK, "it is stuck", about="peer p")
DOWN = wrong(StatusKind.PEER_DOWN, "its peer cluster is down", about="peer p")
WELL = StatusFindings(())


def watched(looks: dict[int, StatusFindings]) -> dict[int, str]:
    """What is told in which minute, if one looks each minute and each of these looks holds on. The state goes through JSON."""
    kept, notified, current = "{}", {}, WELL
    for minute in range(max(looks) + 1):
        current = looks.get(minute, current)
        now = NOW + 60 * minute
        found = notifications(from_json(json.loads(kept), now), current, now)
        kept = json.dumps(to_json(found.notified))
        if found.text:
            notified[minute] = found.text
    return notified


def test_people_are_notified_of_a_finding_at_once_and_then_after_growing_intervals() -> None:
    notified = watched({3: StatusFindings((STUCK,)), 3 * 24 * 60: StatusFindings((STUCK,))})
    assert list(notified) == [3, 8, 23, 83, 323, 1763, 3203]
    assert AGAIN_SECONDS == (300, 900, 3600, 14_400, 86_400)
    assert notified[3] == "peer p: stuck: it is stuck"
    assert notified[83] == "peer p: stuck: it is stuck (it goes on for 1 h 20 min)"


def test_its_end_is_told_once() -> None:
    notified = watched({0: StatusFindings((STUCK,)), 2: WELL, 60: WELL})
    assert list(notified) == [0, 6]
    assert notified[6] == "over after 1 min: peer p: stuck"


def test_one_that_comes_and_goes_is_one() -> None:
    looks = {minute: StatusFindings((STUCK,)) if minute % 2 else WELL for minute in range(1, 20)}
    notified = watched({**looks, 20: WELL, 40: WELL})
    assert list(notified) == [1, 7, 24]
    assert [text.partition(" after")[0] for text in notified.values()][-1] == "over"


def test_a_new_one_is_told_while_another_goes_on() -> None:
    notified = watched({0: StatusFindings((STUCK,)), 2: StatusFindings((STUCK, DOWN)), 4: StatusFindings((STUCK, DOWN))})
    assert notified == {0: "peer p: stuck: it is stuck", 2: "peer p: peer-down: its peer cluster is down"}


def test_what_could_not_be_seen_is_not_over() -> None:
    blind = StatusFindings((wrong(StatusKind.UNREACHABLE, "silent"),), frozenset({"stuck"}))
    notified = watched({0: StatusFindings((STUCK,)), 1: blind, 3: WELL, 20: WELL})
    assert notified[1] == "unreachable: silent"
    assert "peer p: stuck: it is stuck" not in "".join(
        notified[minute] for minute in notified if 1 < minute < 8 and "over" not in notified[minute]
    )
    assert {minute for minute, text in notified.items() if "over after" in text} == {7}


def test_what_goes_on_is_quiet_with_when_it_was_told() -> None:
    found = notifications({STUCK.what: Notified(NOW - 100, NOW - 100, 1, NOW - 40)}, StatusFindings((STUCK,)), NOW)
    assert (found.new, found.over, found.text) == ((), (), "")
    assert found.quiet == ("peer p: stuck: it is stuck (notified 1 min 40 s ago)",)


def test_very_many_findings_stay_small() -> None:
    many = StatusFindings(tuple(wrong(StatusKind.STUCK, "x" * 10_000, about=f"peer p{i}") for i in range(10_000)))
    found = notifications({}, many, NOW)
    assert len(found.new) == MAX_NOTIFIED + 1
    assert found.new[-1] == f"and {10_000 - MAX_NOTIFIED:,} more findings: `walferry status` shows them"
    assert len(json.dumps(to_json(found.notified))) < 300_000
    assert len(notifications(found.notified, StatusFindings((STUCK,), frozenset({"stuck"})), NOW).notified) <= MAX_NOTIFIED


@pytest.mark.parametrize(
    "value",
    [
        None, [], "x", {"peer p: stuck": None}, {"peer p: stuck": [1, 2]}, {"peer p: stuck": [NOW, NOW, 0, NOW]},
        {"peer p: stuck": [NOW, NOW, 1, "x"]}, {"peer p: stuck": [NOW + 1e6, NOW, 1, NOW]},
        {"peer p: stuck": [float("nan"), NOW, 1, NOW]}, {"peer p: stuck": [True, NOW, 1, NOW]},
    ],
    ids=["none", "list", "text", "nothing", "short", "never", "text-for-a-time", "future", "nan", "flag"],
)  # fmt: skip
def test_a_state_that_makes_no_sense_is_begun_anew(value: object) -> None:
    assert from_json(value, NOW) == {}
