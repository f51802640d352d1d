"""A backend that takes a shuffle, for tests."""

from __future__ import annotations

from walferry.base.jobs import Shuffle
from walferry.shipping.bulkload.loading import PartitionOutcome


class LoadBackend:
    """Takes the work of a load, and answers with outcomes."""

    cores = most_tasks = 4
    least_bytes = 0
    shuffles = True

    def __init__(self, *outcomes: PartitionOutcome) -> None:
        self.outcomes = outcomes
        self.taken: list[Shuffle] = []

    def shuffle(self, work: Shuffle) -> list[str]:
        self.taken.append(work)
        return [outcome.to_json() for outcome in self.outcomes]
