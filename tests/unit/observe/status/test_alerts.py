"""A trouble is told at once, then after growing intervals, and its end once."""

from __future__ import annotations

import json

import pytest

from walferry.observe.status.alerts import AGAIN_SECONDS, MAX_ALERTS, Alert, from_json, tell, to_json
from walferry.observe.status.troubles import StatusLook, Trouble, TroubleKind

NOW = 1_800_000_000.0
STUCK = Trouble(TroubleKind.STUCK, "it is stuck", "p")
DOWN = Trouble(TroubleKind.SLAVE_DOWN, "its slave is down", "p")
WELL = StatusLook(())


def watched(looks: dict[int, StatusLook]) -> dict[int, str]:
    """What is told in which minute, if one looks each minute and each of these looks holds on. The state goes through JSON."""
    kept, told, current = "{}", {}, WELL
    for minute in range(max(looks) + 1):
        current = looks.get(minute, current)
        now = NOW + 60 * minute
        found = tell(from_json(json.loads(kept), now), current, now)
        kept = json.dumps(to_json(found.alerts))
        if found.text:
            told[minute] = found.text
    return told


def test_a_trouble_is_told_at_once_and_then_after_growing_intervals() -> None:
    told = watched({3: StatusLook((STUCK,)), 3 * 24 * 60: StatusLook((STUCK,))})
    assert list(told) == [3, 8, 23, 83, 323, 1763, 3203]
    assert AGAIN_SECONDS == (300, 900, 3600, 14_400, 86_400)
    assert told[3] == "peer p: it is stuck"
    assert told[83] == "peer p: it is stuck (it goes on for 1 h 20 min)"


def test_its_end_is_told_once() -> None:
    told = watched({0: StatusLook((STUCK,)), 2: WELL, 60: WELL})
    assert list(told) == [0, 6]
    assert told[6] == "over after 1 min: peer p: it is stuck"


def test_one_that_comes_and_goes_is_one() -> None:
    looks = {minute: StatusLook((STUCK,)) if minute % 2 else WELL for minute in range(1, 20)}
    told = watched({**looks, 20: WELL, 40: WELL})
    assert list(told) == [1, 7, 24]
    assert [text.partition(" after")[0] for text in told.values()][-1] == "over"


def test_a_new_one_is_told_while_another_goes_on() -> None:
    told = watched({0: StatusLook((STUCK,)), 2: StatusLook((STUCK, DOWN)), 4: StatusLook((STUCK, DOWN))})
    assert told == {0: "peer p: it is stuck", 2: "peer p: its slave is down"}


def test_what_could_not_be_seen_is_not_over() -> None:
    blind = StatusLook((Trouble(TroubleKind.UNREACHABLE, "silent"),), frozenset({"stuck"}))
    told = watched({0: StatusLook((STUCK,)), 1: blind, 3: WELL, 20: WELL})
    assert told[1] == "silent"
    assert "peer p: it is stuck" not in "".join(told[minute] for minute in told if 1 < minute < 8 and "over" not in told[minute])
    assert {minute for minute, text in told.items() if "over after" in text} == {7}


def test_what_goes_on_is_quiet_with_when_it_was_told() -> None:
    found = tell({STUCK.key: Alert(NOW - 100, NOW - 100, 1, NOW - 40, STUCK.line)}, StatusLook((STUCK,)), NOW)
    assert (found.troubles, found.over, found.text) == ((), (), "")
    assert found.quiet == ("peer p: it is stuck (told 1 min 40 s ago)",)


def test_very_many_troubles_stay_small() -> None:
    many = StatusLook(tuple(Trouble(TroubleKind.STUCK, "x" * 10_000, f"p{i}") for i in range(10_000)))
    found = tell({}, many, NOW)
    assert len(found.troubles) == MAX_ALERTS + 1
    assert found.troubles[-1] == f"and {10_000 - MAX_ALERTS:,} more troubles: `walferry status` tells them"
    assert len(json.dumps(to_json(found.alerts))) < 300_000
    assert len(tell(found.alerts, StatusLook((STUCK,), frozenset({"stuck"})), NOW).alerts) <= MAX_ALERTS


@pytest.mark.parametrize(
    "value",
    [
        None, [], "x", {"stuck:p": None}, {"stuck:p": [1, 2]}, {"stuck:p": [NOW, NOW, 0, NOW, "x"]},
        {"stuck:p": [NOW, NOW, 1, NOW, 5]}, {"stuck:p": [NOW + 1e6, NOW, 1, NOW, "x"]},
        {"stuck:p": [float("nan"), NOW, 1, NOW, "x"]}, {"stuck:p": [True, NOW, 1, NOW, "x"]},
    ],
    ids=["none", "list", "text", "no-alert", "short", "never", "number", "future", "nan", "flag"],
)  # fmt: skip
def test_a_state_that_makes_no_sense_is_begun_anew(value: object) -> None:
    assert from_json(value, NOW) == {}
