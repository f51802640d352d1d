"""Ships what a peer has queued through a Spark Connect server, as spark_jobs/ship_wals.py does through spark-submit.

The caller is the driver: no process of Spark's is started for the job but a worker for each task, unless one is waiting for work.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from walferry.base.protos.spark_connect_pb2 import Plan
from walferry.base.texts import one_line
from walferry.engine.summary import GroupSummary, Status
from walferry.jobs.connect.errors import ConnectFailed, Interrupted
from walferry.jobs.connect.execution import Execution, interrupt_tag
from walferry.jobs.connect.plan import pickled_call, plan_of
from walferry.jobs.connect.rows import texts
from walferry.jobs.connect.server import Address, Server
from walferry.jobs.connect.sessions import open_session
from walferry.jobs.load_progress import LoadProgress
from walferry.jobs.load_spread import SETTINGS, ConnectSpread
from walferry.jobs.ship_run import ShipRun, Tell, begin, finish, load_files
from walferry.jobs.ship_tasks import RESULT, tasks_of
from walferry.shipping.group_job import GroupJob

MAX_SHOWN_CHARS = 500

log = logging.getLogger(__name__)


class ConnectShip:
    """One run through a server. `archive` is the library, `memory` a folder that remembers sessions."""

    def __init__(self, address: Address, archive: Path, memory: Path, run: ShipRun) -> None:
        self._address = address
        self._archive = archive
        self._memory = memory
        self._run = run
        self._execution: Execution | None = None
        self._ended = False  # by us

    def ship(self) -> list[GroupSummary]:
        """Ship all groups; their summaries, none if nothing is queued.

        Raises ConnectFailed if the server did not run the job to its end, Interrupted if the job was ended on purpose, and other
        WalferryErrors if the run may not begin.
        """
        with Server(self._address) as server:
            session = open_session(server, self._archive, self._memory)
            tag = tag_of(self._run)
            interrupt_tag(session, tag)  # of an earlier try, whose process was killed
            jobs = begin(self._run)
            if not jobs:
                return []

            def run(plan: Plan, column: str, most: int, progress: LoadProgress | None = None) -> Generator[str]:
                return self._answers(Execution(session, plan, tag, progress), column, most)

            def spread(tell: Tell) -> ConnectSpread:
                session.configure(SETTINGS)
                return ConnectSpread(run, self._address.tasks, tell)

            left = load_files(self._run, jobs, spread, log.info)
            summaries = list(left.done)
            if left.jobs:
                with closing(run(self._plan(left.jobs), RESULT, len(left.jobs))) as answers:
                    summaries += summaries_of(str(self._address), answers, [job.group for job in left.jobs])
        finish(self._run, summaries)
        return summaries

    def _answers(self, execution: Execution, column: str, most: int) -> Generator[str]:
        """Run a job, and yield its rows of one column of text, `most` at most."""
        self._execution = execution
        if self._ended:
            raise Interrupted("the job was not begun, as its task was killed")
        with closing(self._execution.run()) as rows:  # closed while there is a connection
            yield from texts(str(self._address), rows, column, most)

    def _plan(self, jobs: Sequence[GroupJob]) -> Plan:
        tasks = min(len(jobs), self._address.tasks)
        return plan_of(tasks, tasks, pickled_call(tasks_of, jobs, tasks), RESULT)

    def interrupt(self) -> None:
        """End the job. If it has not begun yet, it does not begin any more. Raises ConnectFailed."""
        self._ended = True
        if self._execution is not None:
            with Server(self._address) as server:  # this may run in a signal's handler, in the middle of another call
                self._execution.interrupt(server)


def tag_of(run: ShipRun) -> str:
    """The tag of all tries of a run, which has one job of the peer at a time.

    Its groups do not count: a retry may have others, as recoveries hold some meanwhile.
    """
    what = (run.source.to_json(), run.peer_id, run.run_id)
    return f"walferry-{hashlib.sha256(repr(what).encode()).hexdigest()[:32]}"


def summaries_of(server: str, answers: Iterable[str], groups: Sequence[str]) -> list[GroupSummary]:
    """The summaries of just these WAL groups, from JSON. `server` names the server in errors. Raises ConnectFailed."""
    summaries = [_summary(server, text) for text in answers]
    if any(s.status is Status.RUNNING for s in summaries):
        raise ConnectFailed(f"Spark Connect server {server} says that it is done, but not with all WAL groups")
    asked, answered = Counter(groups), Counter(s.group for s in summaries)
    if asked != answered:
        names = one_line(", ".join(sorted((asked - answered) + (answered - asked))), MAX_SHOWN_CHARS)
        raise ConnectFailed(
            f"Spark Connect server {server} has not given one answer for each WAL group that it was asked for: {names}"
        )
    return summaries


def _summary(server: str, text: str) -> GroupSummary:
    """The summary. Raises ConnectFailed."""
    try:
        summary = GroupSummary.from_json(text)
        if not isinstance(summary.group, str):
            raise TypeError("its group is no text")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = one_line(repr(error), MAX_SHOWN_CHARS)
        raise ConnectFailed(f"Spark Connect server {server} sent a summary that cannot be read: {why}") from error
    return summary
