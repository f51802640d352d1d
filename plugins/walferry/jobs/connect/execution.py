"""Runs one job of a Spark Connect server, from its plan to its last row.

The server runs the job apart from the connection. A stream ends early after a minute, or breaks; then another stream goes on. The
job is given up only if the server stays away, keeps ending streams at once, or has forgotten the job. If no client follows a job
any more, the server ends it after `spark.connect.execute.manager.detachedTimeout`.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import replace

from walferry.base.protos import spark_connect_pb2 as messages
from walferry.jobs.connect.errors import ConnectFailed, Interrupted, ServerGone, TimedOut
from walferry.jobs.connect.server import Server
from walferry.jobs.connect.sessions import Session

AWAY_SECONDS = 10.0  # for how long a server may be away in the middle of a job
RETRY_SECONDS = 0.5


class Execution:
    """A job. `interrupt_tag` ends all jobs with the same `tag`."""

    def __init__(self, session: Session, plan: messages.Plan, tag: str) -> None:
        self._session = session
        self._plan = plan
        self._tag = tag
        self._id = str(uuid.uuid4())
        self.ended_tasks = 0  # so far, with those that have failed and are tried again
        self._last: str | None = None  # the id of the last response
        self._ended = False  # by `interrupt`, perhaps before the server has the job, or while the server is away

    def run(self) -> Generator[bytes]:
        """Run the job to its end, and yield its rows as streams of Arrow's IPC format. Raises ConnectFailed, Interrupted.

        If the caller leaves the job before its end, the job is interrupted.
        """
        complete = False
        try:
            for response in self._responses():
                complete = response.HasField("result_complete")
                if response.HasField("execution_progress"):
                    self.ended_tasks = sum(stage.num_completed_tasks for stage in response.execution_progress.stages)
                if response.HasField("arrow_batch"):
                    yield response.arrow_batch.data
        finally:
            with contextlib.suppress(ConnectFailed, Interrupted):
                if not complete:
                    self.interrupt(self._session.server)
                self._release()

    def interrupt(self, server: Server) -> None:
        """End the job, from any thread; a signal's handler needs its own connection. Raises ConnectFailed.

        A job that has not begun does not begin any more, and a running job is not followed any further.
        """
        self._ended = True
        by_id = messages.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID
        replace(self._session, server=server).interrupt(by_id, operation_id=self._id)

    def _responses(self) -> Iterator[messages.ExecutePlanResponse]:
        self._check_wanted()
        stream = self._session.server.stream("ExecutePlan", self._request())
        away_since: float | None = None
        while True:
            began = time.monotonic()
            try:
                for response in stream:
                    away_since, self._last = None, response.response_id
                    self._check_wanted()
                    yield response
                    if response.HasField("result_complete"):
                        return
                server = self._session.server.address
                problem = ServerGone(f"Spark Connect server {server} ends each stream of the job, not the job")
                if time.monotonic() - began > RETRY_SECONDS:  # the server had no answer for so long
                    away_since = None
            except TimedOut as error:
                self._session.has()  # a silent server may be at work; a server that is gone does not answer this
                problem, away_since = error, None
            except ServerGone as error:
                if self._last is None:  # the job may never have reached the server
                    raise
                problem = error
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > AWAY_SECONDS:
                raise problem
            time.sleep(RETRY_SECONDS)
            self._check_wanted()
            again = self._session.request(messages.ReattachExecuteRequest, operation_id=self._id, last_response_id=self._last)
            stream = self._session.server.stream("ReattachExecute", again)

    def _check_wanted(self) -> None:
        if self._ended:
            raise Interrupted("the job was ended, as its task was killed")

    def _request(self) -> messages.ExecutePlanRequest:
        option = messages.ExecutePlanRequest.RequestOption(reattach_options=messages.ReattachOptions(reattachable=True))
        return self._session.request(
            messages.ExecutePlanRequest, plan=self._plan, client_type="walferry", request_options=[option],
            operation_id=self._id, tags=[self._tag],
        )  # fmt: skip

    def _release(self) -> None:
        """Let the server forget the job."""
        everything = messages.ReleaseExecuteRequest.ReleaseAll()
        request = self._session.request(messages.ReleaseExecuteRequest, operation_id=self._id, release_all=everything)
        self._session.server.call("ReleaseExecute", request, messages.ReleaseExecuteResponse)


def interrupt_tag(session: Session, tag: str) -> int:
    """End all jobs of the tag. Returns how many there were. Raises ConnectFailed."""
    return session.interrupt(messages.InterruptRequest.INTERRUPT_TYPE_TAG, operation_tag=tag)
