"""The values that tasks pass to each other: frozen, and with a form as XComs in Airflow's database.

However many queues there are, an XCom stays small: lists are bounded, and texts are cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from walferry.base.records import record_of, text_of

MAX_PROBLEMS = 20  # of a plan, or of a roll
MAX_TEXT_CHARS = 500
MAX_NAME_CHARS = 300  # of a server, a queue or a WAL group


class XComValue:
    """A mixin for dataclasses of plain fields. Their form as an XCom is a dict."""

    def to_xcom(self) -> dict[str, Any]:
        """Return the value in types of JSON: Airflow takes no tuples."""
        value: dict[str, Any] = json.loads(text_of(asdict(self)))  # type: ignore[call-overload]  # of a dataclass
        return value

    @classmethod
    def from_xcom(cls, value: Mapping[str, Any]) -> Self:
        """Return the value that `to_xcom` wrote. Fields that another version has written are left out. Raises NotARecord."""
        return record_of(cls, value)


@dataclass(frozen=True)
class ChosenPeers(XComValue):
    """The peers of a run, and the Master's answer about them: some may be `refused`. `at` is in seconds since the epoch."""

    peers: Sequence[str]
    refused: Sequence[str]
    at: float


@dataclass(frozen=True)
class RollReport(XComValue):
    """How many RegionServers have begun new WALs for a run, why others have not, and how many had no need to."""

    servers: int
    problems: Sequence[str] = ()
    spared: int = 0
    warnings: Sequence[str] = ()  # what the rolls lead to

    @classmethod
    def of(cls, servers: int, failures: Mapping[str, str], *, spared: int = 0, warnings: Sequence[str] = ()) -> RollReport:
        """Return the report of a roll. It keeps only some of very many failures."""
        reported = [f"roll of {server}: {why}"[:MAX_TEXT_CHARS] for server, why in list(failures.items())[:MAX_PROBLEMS]]
        more = len(failures) - len(reported)
        problems = [*reported, f"roll of {more:,} more servers failed: see the log of the task roll"] if more else reported
        return cls(servers, problems, spared, [warning[:MAX_TEXT_CHARS] for warning in warnings])


@dataclass(frozen=True)
class PlanProblem(XComValue):
    """A problem that will stop the shipping of a WAL group, as far as the plan can know."""

    server: str
    queue: str
    group: str
    problem: str

    @classmethod
    def of(cls, server: str, queue: str, group: str, problem: str) -> PlanProblem:
        """Return the problem with its texts cut."""
        return cls(server[:MAX_NAME_CHARS], queue[:MAX_NAME_CHARS], group[:MAX_NAME_CHARS], problem[:MAX_TEXT_CHARS])

    def __str__(self) -> str:
        return f"{self.server} {self.queue} {self.group}: {self.problem}"


@dataclass(frozen=True)
class Planned(XComValue):
    """What one Spark job has to ship, in a few figures. `run_id` names the attempt under which its summaries are kept."""

    run_id: str
    peer: str
    groups: int = 0  # WAL groups that need the job
    wals: int = 0
    bytes: int = 0
    problems: tuple[PlanProblem, ...] = ()
    problems_left_out: int = 0
    dequeued: int = 0  # WALs without edits that have left their queues
    held: int = 0  # dead servers' WAL groups that a recovery holds
    oldest: int | None = None  # when the oldest WAL to ship was begun, in ms since the epoch
    turn: int = 0  # number of the turn to ship the peer, when the plan was made
    left_to: str = ""  # which other run ships the peer, or why none does


@dataclass(frozen=True)
class Claimed(XComValue):
    """The queues that the claim of a dead server has moved. `task` is the task instance that claimed them."""

    server: str
    peers: Sequence[str] = ()  # the run may drain their queues of this server, wherever they lie
    moved: int = 0
    left: Sequence[str] = ()  # why other queues were left
    task: str = ""


@dataclass(frozen=True)
class Selected(XComValue):
    """Recovered queues that were chosen by hand: all of these peers' queues, or only the one that was called `queue` then."""

    peers: Sequence[str]
    queue: str = ""


def run_of(ti: Any) -> str:
    """Return the run of a task, named with its DAG: runs of two DAGs may have the same id."""
    return f"{ti.dag_id}/{ti.run_id}"
