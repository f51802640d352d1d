"""A Spark Connect server that takes the plan of a load, for tests."""

from __future__ import annotations

from collections.abc import Iterator

from walferry.bulkload.loading import Outcome
from walferry.protos.spark_connect_pb2 import Plan
from walferry.spark.load_progress import LoadProgress
from walferry.spark.load_tasks import OUTCOME


class Server:
    """Takes a plan, and answers with outcomes."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = outcomes
        self.most = 0
        self.plans: list[Plan] = []

    def run(self, plan: Plan, column: str, most: int, progress: LoadProgress) -> Iterator[str]:
        self.plans.append(plan)
        self.most = most
        assert column == OUTCOME
        return (outcome.to_json() for outcome in self.outcomes)
