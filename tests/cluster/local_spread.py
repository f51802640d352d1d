"""Runs a load's tasks in this process one by one, in an order that Spark would not use: the last items first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from walferry.base.records import Record
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.loading import ShareOutcome, load_share
from walferry.shipping.bulkload.shares import Share
from walferry.shipping.bulkload.survey import WalSurvey, survey_wal

R = TypeVar("R", bound=Record)


@dataclass
class LocalSpread:
    """A backend for loads. Results travel as JSON, as they do between processes."""

    cores: int = 2
    most_tasks: int = 1000
    least_bytes: int = 0

    def run(
        self, function: Callable[[Any], R], items: Sequence[Any], result: type[R], lost: object = None, progress: object = None
    ) -> list[R]:
        assert isinstance(function, partial)
        (job,) = function.args
        call: Any = self.survey if result is WalSurvey else self.load
        found = [result.from_json(call(job, item).to_json()) for item in reversed(items)]
        return found[::-1]

    def survey(self, job: LoadJob, number: int) -> WalSurvey:
        """Run a task of the first stage."""
        return survey_wal(job, number)

    def load(self, job: LoadJob, share: Share) -> ShareOutcome:
        """Run a task of the second stage."""
        return load_share(job, share)
