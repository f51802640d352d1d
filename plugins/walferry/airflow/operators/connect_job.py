"""A job that a task has a Spark Connect server run, instead of starting Spark for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException

from walferry.airflow.hooks.spark_connect import SparkConnectError, WalferryConnectHook
from walferry.base.jobs import MAX_LINE_CHARS, BackendFailed, Job
from walferry.base.texts import one_line
from walferry.jobs.archive import build_archive
from walferry.jobs.archive_entry import cache_folder

if TYPE_CHECKING:
    from walferry.jobs.connect.connect_job import ConnectJob

MAX_ERROR_CHARS = 2000

log = logging.getLogger(__name__)


class ThroughConnect:
    """Runs jobs of one task through the server of a connection, if there is such a connection."""

    def __init__(self, conn_id: str) -> None:
        self.conn_id = conn_id
        self._under_way: ConnectJob | None = None
        self._ended = False  # by us

    def run(self, job: Job) -> str | None:
        """Run a job; None if it has come to its end, else why the server did not run it: empty if there is no connection.

        Raises AirflowException if the job has failed or was ended on purpose, and WalferryError if it may not begin.
        """
        try:
            address = WalferryConnectHook(self.conn_id).address()
        except SparkConnectError as error:
            return str(error)
        if address is None:
            return ""
        from walferry.jobs.connect.connect_job import ConnectJob
        from walferry.jobs.connect.errors import Interrupted

        folder = cache_folder()
        self._under_way = ConnectJob(address, build_archive(folder / "archives"), folder / "connect", job)
        if self._ended:
            raise AirflowException("the task was killed: it begins no job")
        try:
            outcome = self._under_way.run_job(_say)
        except BackendFailed as error:
            return str(error)
        except Interrupted as error:
            raise AirflowException(str(error)) from error
        finally:
            self._under_way = None
        for line in outcome.lines:
            _say(line)
        for line in outcome.errors:
            log.warning("%s", one_line(line, MAX_LINE_CHARS))
        if outcome.failed:
            raise AirflowException(
                f"The job {job.title} has failed: {'; '.join(outcome.errors) or 'see above'}"[:MAX_ERROR_CHARS]
            )
        return None

    def interrupt(self) -> None:
        """End the job that is under way, and begin none after this. A signal's handler may call this."""
        self._ended = True
        if self._under_way is None:
            return
        from walferry.jobs.connect.errors import ConnectFailed

        try:
            self._under_way.interrupt()
        except ConnectFailed as error:  # then the server ends it, as no client follows it any more
            log.warning("%s", error)


def _say(text: str) -> None:
    """Log a line of a job. What a cluster or the server says in it can neither end it nor control a terminal."""
    log.info("%s", one_line(text, MAX_LINE_CHARS))
