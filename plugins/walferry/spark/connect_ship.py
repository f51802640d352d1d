"""Ships what a peer has queued through a Spark Connect server, as spark_jobs/ship_wals.py does through spark-submit.

The caller is the driver: no process of Spark's is started for the job but a worker for each task, unless one is waiting for work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from walferry.protos.spark_connect_pb2 import Plan
from walferry.shipping.group_job import GroupJob
from walferry.shipping.summary import GroupSummary
from walferry.spark.connect.execution import Execution, interrupt_tag
from walferry.spark.connect.plan import pickled_call, plan_of
from walferry.spark.connect.server import Address, Server
from walferry.spark.connect.sessions import open_session
from walferry.spark.ship_run import ShipRun, begin, finish
from walferry.spark.ship_tasks import RESULT, tasks_of


class ConnectShip:
    """One run through a server. `archive` is the library, `memory` a folder that remembers sessions."""

    def __init__(self, address: Address, archive: Path, memory: Path, run: ShipRun) -> None:
        self._address = address
        self._archive = archive
        self._memory = memory
        self._run = run
        self._execution: Execution | None = None

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
            self._execution = Execution(session, self._plan(jobs), tag)
            with closing(self._execution.run()) as rows:
                summaries = [GroupSummary.from_json(text) for text in _texts(rows)]
        finish(self._run, summaries)
        return summaries

    def _plan(self, jobs: Sequence[GroupJob]) -> Plan:
        return plan_of(len(jobs), self._address.tasks, pickled_call(tasks_of, jobs), RESULT)

    def interrupt(self) -> None:
        """End the job, if it has begun. Raises ConnectFailed."""
        if self._execution is not None:
            with Server(self._address) as server:  # this may run in a signal's handler, in the middle of another call
                self._execution.interrupt(server)


def tag_of(run: ShipRun) -> str:
    """The tag of all tries of a run."""
    what = (run.source.to_json(), run.peer_id, run.run_id, *(run.groups or ()))
    return f"walferry-{hashlib.sha256(repr(what).encode()).hexdigest()[:32]}"


def _texts(streams: Iterable[bytes]) -> Iterator[str]:
    """The rows of Arrow streams of one column of text."""
    for stream in streams:
        import pyarrow as pa  # while the job runs, not before it begins

        with pa.ipc.open_stream(stream) as reader:
            for batch in reader:
                yield from batch.column(0).to_pylist()
