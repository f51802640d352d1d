"""Spreads a load over a backend: surveys of the WALs → shares of the regions → loads.

A worker imports only its half of the load.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from walferry.base.jobs import Backend, BackendFailed, Tell, check_answers
from walferry.load.errors import EditsDiffer
from walferry.shipping.bulkload.job import LoadJob

if TYPE_CHECKING:
    from walferry.shipping.bulkload.loading import ShareOutcome
    from walferry.shipping.bulkload.shares import Share
    from walferry.shipping.bulkload.survey import WalSurvey

EVERY_SECONDS = 10.0  # between two reports of the tasks' progress


def survey_all(on: Backend, tell: Tell, job: LoadJob) -> list[WalSurvey]:
    """Read all WALs of the load, and return what is known of each. `tell` gets the progress. Raises BackendFailed."""
    from walferry.shipping.bulkload.survey import WalSurvey, survey_wal

    progress = LoadProgress(tell, "read {} of {} parts of the WALs")
    found = on.run(partial(survey_wal, job), range(len(job.wals)), WalSurvey, progress=progress)
    check_answers("WAL", (str(wal.number) for wal in job.wals), (str(survey.report.wal) for survey in found))
    return found


def load_all(on: Backend, tell: Tell, job: LoadJob, shares: Sequence[Share]) -> list[ShareOutcome]:
    """Load the shares, and return their outcomes. `tell` gets the progress. Raises BackendFailed, EditsDiffer."""
    from walferry.shipping.bulkload.loading import ShareOutcome, load_share

    progress = LoadProgress(tell, "loaded {} of {} parts of the regions")
    found = on.run(partial(load_share, job), shares, ShareOutcome, progress=progress)
    check_answers("region", (str(share.first) for share in shares), (str(outcome.first) for outcome in found))
    if changed := next((outcome.changed for outcome in found if outcome.changed), ""):
        raise EditsDiffer(changed)
    return [_checked(share, outcome, len(job.also)) for share, outcome in zip(shares, found, strict=True)]


def _checked(share: Share, outcome: ShareOutcome, others: int) -> ShareOutcome:
    """Return a share's outcome, with those of so many other peers: none for a peer if its WALs could not be read at all.

    Raises BackendFailed unless each says what has become of all regions.
    """
    if not outcome.others and outcome.failed and not outcome.regions:
        outcome = replace(outcome, others=(outcome,) * others)
    if len(outcome.others) != others:
        raise BackendFailed(f"the answer for {others} other peers is one for {len(outcome.others)}")
    for each in (outcome, *outcome.others):
        if each.regions > len(share.regions) or (each.regions < len(share.regions) and not each.failed):
            raise BackendFailed(f"the answer for {len(share.regions)} regions is one for {each.regions}")
    return outcome


class LoadProgress:
    """Passes changes of the progress to `tell`, once in a few seconds at most."""

    def __init__(self, tell: Tell, text: str) -> None:
        self._tell = tell
        self._text = text
        self._reported = ""
        self._next = 0.0

    def __call__(self, done: int, count: int) -> None:
        """Take the progress: how many tasks are done, and of how many."""
        text = self._text.format(f"{done:,}", f"{count:,}")
        if text != self._reported and time.monotonic() >= self._next:
            self._reported, self._next = text, time.monotonic() + EVERY_SECONDS
            self._tell(text)
