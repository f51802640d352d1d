"""What a job is, and what runs its functions: Spark, through spark-submit or Spark Connect, or processes of this machine.

A job is a record. Its `run` is the driver: it plans, has a backend call one of the library's functions for many items side by
side, and tells what became of it. It may be killed at any time, and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar

from walferry.base.errors import WalferryError
from walferry.base.records import Record
from walferry.base.texts import one_line

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R", bound=Record)

MAX_SHOWN_CHARS = 300

Tell = Callable[[str], None]
Map = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""A function for Spark's mapInArrow."""
Stages = Sequence[tuple[int, int]]
"""Tasks that have ended, of how many: of each stage, in the order in which they run."""


class BackendFailed(WalferryError):
    """A backend cannot run a job to its end now. Another one may."""


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """Two functions with a shuffle of rows between them.

    `first` makes a function that gets rows with the numbers of items, and yields rows of `columns` (name → int or binary). The
    column `partition` says which of the `partitions` gets a row. `second` makes a function that gets the rows of a partition, and
    yields rows of one column, `answer`, of text; there are `most_answers` of them at most.
    """

    items: int
    first: Callable[[], Map]
    columns: Mapping[str, str]
    partition: str
    partitions: int
    second: Callable[[], Map]
    answer: str
    most_answers: int
    progress: Callable[[Stages], None]  # is called with how far it is


class Backend(Protocol):
    """Runs functions of the library side by side."""

    @property
    def cores(self) -> int:
        """How many tasks run at a time, about."""

    @property
    def most_tasks(self) -> int:
        """How many tasks a stage may have."""

    @property
    def least_bytes(self) -> int:
        """How much data is worth another task."""

    @property
    def shuffles(self) -> bool:
        """Whether it has a shuffle."""

    def run(
        self, function: Callable[[T], R], items: Sequence[T], result: type[R], lost: Callable[[T, str], R] | None = None
    ) -> list[R]:
        """Call `function` for each item, in any order. Returns the results in the order of the items.

        `function` is one of the library's, or a partial of one, and travels by its name. Where a process that dies ends only its
        own item, `lost` makes a result of the item and the reason. Raises BackendFailed.
        """

    def shuffle(self, work: Shuffle) -> list[str]:
        """Run two functions with a shuffle between them. Returns the answers of the second one. Raises BackendFailed."""


def check_answers(what: str, asked: Iterable[str], answered: Iterable[str]) -> None:
    """Check that each answer of a backend is one for what was asked. Raises BackendFailed."""
    for name, found in zip(asked, answered, strict=True):
        if found != name:
            raise BackendFailed(f"the answer for {what} {name} is one for {one_line(found, MAX_SHOWN_CHARS)}")


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """What became of a job: lines to tell, what went wrong, and the result as JSON, for programs."""

    lines: Sequence[str] = ()
    errors: Sequence[str] = ()
    failed: bool = False
    result: str = ""


MAX_LINE_CHARS = 20_000  # of what a job says
MAX_ARGUMENT_BYTES = 64 << 10  # Linux takes twice as much in one argument of a command line, and some 2 MB in all


def arguments_of(job: Job) -> list[str]:
    """A job as arguments of spark_jobs/run_job.py."""
    text = job.to_json()  # of ASCII
    return [job.kind, *(text[start : start + MAX_ARGUMENT_BYTES] for start in range(0, len(text), MAX_ARGUMENT_BYTES))]


class Job(Protocol):
    """A job: a record that any backend can run."""

    kind: ClassVar[str]  # how spark_jobs/run_job.py knows it
    nothing_done: ClassVar[str]  # begins the line that says why it has stopped

    @property
    def title(self) -> str:
        """What Spark's UI shows."""

    @property
    def identity(self) -> tuple[str, ...]:
        """What all tries of the job have in common, and no other job has."""

    def to_json(self) -> str:
        """Write the job for `from_json`."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the job that `to_json` wrote. Raises WalferryError, ValueError."""

    def begun_later(self, seconds: float) -> Self:
        """The job if it begins so many seconds later: with a deadline, if it has one, that is so much nearer."""

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Run it to its end. Raises WalferryError if it cannot begin, BackendFailed."""
