"""A load's two stages, as a backend runs them, and what is told of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from tests.unit.shipping.bulkload.jobs import groups_of, job
from walferry.base.jobs import Backend, BackendFailed
from walferry.base.records import Record
from walferry.load.errors import EditsDiffer
from walferry.shipping.bulkload import load_spread
from walferry.shipping.bulkload.load_spread import LoadProgress, load_all, survey_all
from walferry.shipping.bulkload.loading import Loaded, ShareOutcome
from walferry.shipping.bulkload.reading import WalReport
from walferry.shipping.bulkload.shares import Share
from walferry.shipping.bulkload.survey import WalSurvey

R = TypeVar("R", bound=Record)

SHARES = [Share(((0, 5), (1, 5)), ((0, 7),)), Share(((2, 5),), ((0, 7), (1, 8)))]
WALS = [wal for group in groups_of(1, 2) for wal in group]


class Answers:
    """A backend that takes the work as a process does, and answers."""

    cores = most_tasks = 4
    least_bytes = 0

    def __init__(self, *answers: Record) -> None:
        self._answers = answers

    def run(
        self, function: Callable[[Any], Any], items: Sequence[Any], result: type[R], lost: object = None, progress: object = None
    ) -> list[R]:
        pickle.loads(pickle.dumps((function, items)))
        assert len(items) == len(self._answers)
        return [result.from_json(answer.to_json()) for answer in self._answers]


def answering(*answers: Record) -> Backend:
    return Answers(*answers)


def test_surveys_and_outcomes_come_as_they_were_told() -> None:
    surveys = [WalSurvey(WalReport(number, tables={"t": [1, 2, 3, 4]}), regions=((0, 5, 50),)) for number in range(3)]
    assert survey_all(answering(*surveys), print, job(wals=WALS)) == surveys
    outcomes = [ShareOutcome(0, 2, Loaded(1, 2, 3)), ShareOutcome(2, 0, failed={"it split": ("t",)})]
    assert load_all(answering(*outcomes), print, job(wals=WALS), SHARES) == outcomes


def test_surveys_of_other_wals_are_told() -> None:
    surveys = [WalSurvey(WalReport(number)) for number in (0, 2, 1)]
    with pytest.raises(BackendFailed, match="the answer for WAL 1 is one for 2"):
        survey_all(answering(*surveys), print, job(wals=WALS))


@pytest.mark.parametrize("wrong", [ShareOutcome(0, 3), ShareOutcome(0, 1), ShareOutcome(0)])
def test_an_outcome_that_leaves_regions_out_without_a_reason_is_told(wrong: ShareOutcome) -> None:
    """These regions would count as loaded."""
    with pytest.raises(BackendFailed, match="the answer for 2 regions is one for"):
        load_all(answering(wrong, ShareOutcome(2, 1)), print, job(wals=WALS), SHARES)


def test_the_outcomes_of_other_peers_come_too() -> None:
    """None has got anything of a share whose WALs could not be read again."""
    whole, none = ShareOutcome(0, 2, Loaded(1, 2, 3)), ShareOutcome(2, failed={"gone": ("t",)})
    found = load_all(answering(replace(whole, others=(whole,)), none), print, job(wals=WALS, also=(job(),)), SHARES)
    assert [[outcome.of_peer(number).regions for number in range(2)] for outcome in found] == [[2, 2], [0, 0]]
    assert found[1].of_peer(1).failed == {"gone": ("t",)}


@pytest.mark.parametrize("others", [(), (ShareOutcome(0, 1),), (ShareOutcome(0, 2), ShareOutcome(0, 2))])
def test_outcomes_that_do_not_say_what_each_peer_has_got_are_told(others: tuple[ShareOutcome, ...]) -> None:
    with pytest.raises(BackendFailed, match=r"the answer for . (other peers|regions) is one for"):
        load_all(answering(ShareOutcome(0, 2, others=others), ShareOutcome(2, 1)), print, job(wals=WALS, also=(job(),)), SHARES)


def test_an_outcome_of_another_share_is_told() -> None:
    with pytest.raises(BackendFailed, match="the answer for region 0 is one for 2"):
        load_all(answering(ShareOutcome(2, 1), ShareOutcome(0, 2)), print, job(wals=WALS), SHARES)


def test_a_load_whose_edits_have_changed_counts_for_nothing() -> None:
    outcomes = [ShareOutcome(0, 2, Loaded(1, 2, 3)), ShareOutcome(2, changed="WAL w has other entries")]
    with pytest.raises(EditsDiffer, match=r"^WAL w has other entries$"):
        load_all(answering(*outcomes), print, job(wals=WALS), SHARES)


def test_only_what_has_changed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_spread, "EVERY_SECONDS", 0.0)
    reported: list[str] = []
    progress = LoadProgress(reported.append, "read {} of {} parts")
    for done in (0, 0, 1, 1):
        progress(done, 1200)
    assert reported == ["read 0 of 1,200 parts", "read 1 of 1,200 parts"]


def test_not_every_change_is_told() -> None:
    reported: list[str] = []
    progress = LoadProgress(reported.append, "read {} of {} parts")
    for done in range(1000):
        progress(done, 1000)
    assert reported == ["read 0 of 1,000 parts"]


def test_the_work_for_the_tasks_does_not_contain_what_they_make_of_it() -> None:
    """Stores and the like are made by each task."""
    made = job(wals=WALS)
    before = len(pickle.dumps(made))
    answers = [WalSurvey(WalReport(number)) for number in range(3)]
    survey_all(answering(*answers), print, made)
    assert len(pickle.dumps(made)) == before
