"""Defines jobs, and the backends that run their functions: Spark, by spark-submit or Spark Connect, or local processes.

A job is a record. Its `run` is the driver: it plans, makes a backend call one of the library's functions for many items side by
side, and reports the outcome. It may be killed at any time, and run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeVar

from walferry.base.errors import WalferryError
from walferry.base.periodic import every
from walferry.base.records import Record
from walferry.base.texts import one_line

T = TypeVar("T")
R = TypeVar("R", bound=Record)

MAX_SHOWN_CHARS = 300
REPORT_SECONDS = 1.0  # between two reports of progress

Tell = Callable[[str], None]
Progress = Callable[[int, int], None]
"""Gets how many items have ended, and of how many; or tasks, if tasks have several items each. It is called from any thread."""


class BackendFailed(WalferryError):
    """A backend cannot run a job to its end now. Another backend may."""


class Backend(Protocol):
    """Runs functions of the library side by side."""

    @property
    def cores(self) -> int:
        """The approximate number of tasks that run at a time."""

    @property
    def most_tasks(self) -> int:
        """The largest number of tasks of a call of `run`."""

    @property
    def least_bytes(self) -> int:
        """The amount of data that is worth another task."""

    def run(
        self, function: Callable[[T], R], items: Sequence[T], result: type[R], lost: Callable[[T, str], R] | None = None,
        progress: Progress | None = None,
    ) -> list[R]:  # fmt: skip
        """Call `function` for each item, in any order. Returns the results in the order of the items.

        `function` is a function of the library, or a partial of one, and travels by its name. If the death of a process ends only
        its own item, `lost` makes a result of the item and the reason. `progress` is called every second meanwhile, as far as the
        progress is known; an error that it raises ends these calls only. Raises BackendFailed.
        """


def reporting(progress: Progress | None, look: Callable[[], tuple[int, int] | None]) -> AbstractContextManager[None]:
    """Call `progress` during a block, every second, with what `look` returns, unless that is None."""
    if progress is None:
        return nullcontext()

    def report() -> None:
        if (counts := look()) is not None:
            progress(*counts)

    return every(REPORT_SECONDS, report)


def check_answers(what: str, asked: Iterable[str], answered: Iterable[str]) -> None:
    """Check that a backend's answers are for the items that were asked. Raises BackendFailed."""
    for name, found in zip(asked, answered, strict=True):
        if found != name:
            raise BackendFailed(f"the answer for {what} {name} is one for {one_line(found, MAX_SHOWN_CHARS)}")


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """The outcome of a job: lines to show, the problem, and the result as JSON for programs."""

    lines: Sequence[str] = ()
    errors: Sequence[str] = ()
    failed: bool = False
    result: str = ""


MAX_LINE_CHARS = 20_000  # of a line that a job reports
MAX_ARGUMENT_BYTES = 64 << 10  # Linux allows twice as much in one argument of a command line, and some 2 MB in all


_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_SPECIAL = re.compile(r"""\\(["\\/])|([{}`$'!<>])""")


def plain(text: str) -> str:
    """Return equal JSON of ASCII that shells and YARN leave as it is, inside of single quotes within double quotes.

    Spark's application master is started by such a command line, in which YARN takes {{ and }} for the marks of a variable, and
    replaces words such as <CPS>.
    """
    escaped = _STRINGS.sub(lambda string: _SPECIAL.sub(lambda found: f"\\u{ord(found[1] or found[2]):04x}", string[0]), text)
    while "}}" in escaped:
        escaped = escaped.replace("}}", "} }")
    return escaped


def arguments_of(job: Job) -> list[str]:
    """Return a job as arguments of spark_jobs/run_job.py."""
    text = plain(job.to_json())
    return [job.kind, *(text[start : start + MAX_ARGUMENT_BYTES] for start in range(0, len(text), MAX_ARGUMENT_BYTES))]


class Job(Protocol):
    """A job: a record that any backend can run."""

    kind: ClassVar[str]  # the job's name for spark_jobs/run_job.py
    nothing_done: ClassVar[str]  # begins the line with the reason why the job has stopped

    @property
    def title(self) -> str:
        """The job's title in Spark's UI."""

    @property
    def identity(self) -> tuple[str, ...]:
        """A text that all tries of the job share, and no other job has."""

    def to_json(self) -> str:
        """Return the job as text for `from_json`."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the job that `to_json` wrote. Raises WalferryError, ValueError."""

    def begun_later(self, seconds: float) -> Self:
        """Return the job for a start `seconds` later: its deadline, if it has one, is that much nearer."""

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Run the job to its end. Raises WalferryError if it cannot begin, BackendFailed."""
