"""Runs a job on a Spark Connect server. The caller is the driver: Spark starts no process except a worker for each task."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from walferry.base.jobs import Job, JobOutcome, Progress, Tell, reporting
from walferry.base.records import Record
from walferry.base.texts import one_line
from walferry.jobs.connect.errors import ConnectFailed, Interrupted
from walferry.jobs.connect.execution import Execution, interrupt_tag
from walferry.jobs.connect.plan import pickled_call, plan_of
from walferry.jobs.connect.server import Address, Server
from walferry.jobs.connect.sessions import Session, open_session
from walferry.jobs.connect.tasks import ANSWER, tasks_of
from walferry.jobs.session_settings import MACHINE_BYTES

MAX_SHOWN_CHARS = 500
MAX_STREAM_BYTES = 8 << 20  # Spark sends 4 MB at a time
MAX_TEXT_CHARS = 1 << 20
MAX_WHY_CHARS = 300
MAX_DIGITS = 9
MOST_ANSWERED_CHARS = 64 << 20  # in all answers of a job: their results take several times as much memory
MOST_SENT_BYTES = 32 << 20  # to a Spark Connect server, whose clients send 128 MB at most

T = TypeVar("T")
R = TypeVar("R", bound=Record)


class ConnectJob:
    """One job on a server, and its backend. `archive` is the library; the folder `memory` remembers sessions."""

    least_bytes = MACHINE_BYTES  # the server does not say whether its tasks share a machine

    def __init__(self, address: Address, archive: Path, memory: Path, job: Job) -> None:
        self.job = job
        self._tag = tag_of(job)
        self.address = address
        self.cores = self.most_tasks = address.tasks  # no more tasks at a time than a job may have on the server
        self._archive = archive
        self._memory = memory
        self._session: Session | None = None
        self._execution: Execution | None = None
        self._ended = False  # by `interrupt`

    def run_job(self, say: Tell) -> JobOutcome:
        """Run the job to its end.

        Raises ConnectFailed if the server did not run it to its end, Interrupted if it was ended on purpose, and the job's own
        errors.
        """
        with Server(self.address) as server:
            self._session = open_session(server, self._archive, self._memory)
            interrupt_tag(self._session, self._tag)  # ends the job of an earlier try, whose process was killed
            return self.job.run(self, say)

    def interrupt(self) -> None:
        """End the job. A job that has not begun yet does not begin any more. Raises ConnectFailed."""
        self._ended = True
        if self._execution is not None:
            with Server(self.address) as server:  # this may run in a signal's handler, in the middle of another call
                self._execution.interrupt(server)

    def run(
        self, function: Callable[[T], R], items: Sequence[T], result: type[R], lost: Callable[[T, str], R] | None = None,
        progress: Progress | None = None,
    ) -> list[R]:  # fmt: skip
        """Call `function` for each item. Raises Interrupted, and ConnectFailed, also for more items than one message holds."""
        if not items:
            return []
        tasks = min(len(items), self.most_tasks)
        plan = plan_of(tasks, tasks, _sendable(pickled_call(tasks_of, function, items, tasks)), ANSWER)
        execution = Execution(self._begun, plan, self._tag)
        ended = reporting(progress, lambda: (min(execution.ended_tasks, tasks), tasks))
        with ended, closing(self._answers(execution, len(items))) as answers:
            return results_of(str(self.address), answers, len(items), result)

    @property
    def _begun(self) -> Session:
        assert self._session is not None, "the job is run by `run_job`"
        return self._session

    def _answers(self, execution: Execution, most: int) -> Generator[str]:
        """Run tasks, and yield their answers, at most `most`."""
        self._execution = execution
        if self._ended:
            raise Interrupted("the job was not begun, as its task was killed")
        with closing(execution.run()) as rows:  # closed while there is a connection
            yield from texts(str(self.address), rows, ANSWER, most)


def tag_of(job: Job) -> str:
    """Return the tag of all tries of a job."""
    return f"walferry-{hashlib.sha256(repr(job.identity).encode()).hexdigest()[:32]}"


def results_of(server: str, answers: Iterable[str], count: int, result: type[R]) -> list[R]:
    """Return the results of `count` items, in their order. `server` names the server in errors. Raises ConnectFailed."""
    found: dict[int, R] = {}
    left = MOST_ANSWERED_CHARS
    for answer in answers:
        left -= len(answer)
        if left < 0:
            raise ConnectFailed(f"Spark Connect server {server} sent more than {MOST_ANSWERED_CHARS:,} characters of answers")
        number, _, text = answer.partition(" ")
        try:
            if not (number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS):
                raise ValueError("it does not begin with the number of an item")
            if int(number) in found:
                raise ValueError("there are two of its item")
            found[int(number)] = result.from_json(text)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = one_line(repr(error), MAX_SHOWN_CHARS)
            raise ConnectFailed(f"Spark Connect server {server} sent an answer that cannot be read: {why}") from error
    if found.keys() != set(range(count)):
        raise ConnectFailed(f"Spark Connect server {server} has given {len(found)} answers, not one for each of {count} items")
    return [found[number] for number in range(count)]


def texts(server: str, streams: Iterable[bytes], column: str, max_rows: int) -> Iterator[str]:
    """Yield the rows of Arrow streams with one text column. They are bounded in number and size, and checked before reading.

    `server` names the server in errors. Raises ConnectFailed if the server sends anything else, or more.
    """
    left = max_rows
    for stream in streams:
        import pyarrow as pa  # while the job runs, not before it begins

        try:
            found = _texts_of(stream, column, left)
        except (pa.ArrowException, OSError, ValueError) as error:
            why = one_line(str(error), MAX_WHY_CHARS)
            raise ConnectFailed(f"Spark Connect server {server} sent rows that cannot be read: {why}") from error
        left -= len(found)
        yield from found


def _texts_of(stream: bytes, column: str, max_rows: int) -> list[str]:
    """Return the rows of one stream. Raises ValueError, and Arrow's errors."""
    import pyarrow as pa

    if len(stream) > MAX_STREAM_BYTES:
        raise ValueError(f"{len(stream)} bytes at once, more than {MAX_STREAM_BYTES}")
    found: list[str] = []
    with pa.ipc.open_stream(stream) as reader:
        types = pa.types.is_string, pa.types.is_large_string
        if reader.schema.names != [column] or not any(is_text(reader.schema.types[0]) for is_text in types):
            raise ValueError(f"they do not have one column {column!r} of text")
        for batch in reader:
            batch.validate(full=True)  # otherwise Arrow would follow offsets that point elsewhere
            if len(found) + batch.num_rows > max_rows:
                raise ValueError("they are more than were asked for")
            found += batch.column(0).to_pylist()
    if any(text is None or len(text) > MAX_TEXT_CHARS for text in found):
        raise ValueError(f"a row is null, or has more than {MAX_TEXT_CHARS} characters")
    return found


def _sendable(command: bytes) -> bytes:
    if len(command) > MOST_SENT_BYTES:
        raise ConnectFailed(f"the job has {len(command):,} bytes, which are too many for a Spark Connect server")
    return command
