"""A Spark Connect server that takes the plan of a load, for tests."""

from __future__ import annotations

from collections.abc import Iterator

from walferry.base.protos.spark_connect_pb2 import Plan
from walferry.jobs.load_progress import LoadProgress
from walferry.jobs.load_tasks import OUTCOME
from walferry.shipping.bulkload.loading import PartitionOutcome


class Server:
    """Takes a plan, and answers with outcomes."""

    def __init__(self, *outcomes: PartitionOutcome) -> None:
        self.outcomes = outcomes
        self.most = 0
        self.plans: list[Plan] = []

    def run(self, plan: Plan, column: str, most: int, progress: LoadProgress) -> Iterator[str]:
        self.plans.append(plan)
        self.most = most
        assert column == OUTCOME
        return (outcome.to_json() for outcome in self.outcomes)
