"""A job that a task has a Spark Connect server run, instead of starting Spark for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException

from walferry.airflow.hooks.spark_connect import SparkConnectError, WalferryConnectHook
from walferry.jobs.archive import build_archive
from walferry.jobs.archive_entry import cache_folder

if TYPE_CHECKING:
    from walferry.jobs.connect_ship import ConnectShip
    from walferry.jobs.ship_run import ShipRun

log = logging.getLogger(__name__)


class ThroughConnect:
    """Runs jobs of one task through the server of a connection, if there is such a connection."""

    def __init__(self, conn_id: str) -> None:
        self.conn_id = conn_id
        self._under_way: ConnectShip | None = None
        self._ended = False  # by us

    def ship(self, run: ShipRun) -> str | None:
        """Ship; None if the job has come to its end, else why the server did not run it: empty if there is no connection.

        Raises AirflowException if the job has failed or was ended on purpose, and WalferryError if it may not begin.
        """
        try:
            address = WalferryConnectHook(self.conn_id).address()
        except SparkConnectError as error:
            return str(error)
        if address is None:
            return ""
        from walferry.jobs.connect.errors import ConnectFailed, Interrupted
        from walferry.jobs.connect_ship import ConnectShip
        from walferry.jobs.ship_run import nothing_queued, outcome

        folder = cache_folder()
        self._under_way = ConnectShip(address, build_archive(folder / "archives"), folder / "connect", run)
        if self._ended:
            raise AirflowException("the task was killed: it begins no job")
        try:
            summaries = self._under_way.ship()
        except ConnectFailed as error:
            return str(error)
        except Interrupted as error:
            raise AirflowException(str(error)) from error
        finally:
            self._under_way = None
        for line in [line for s in summaries for line in outcome(s)] or [nothing_queued(run)]:
            log.info("%s", line)
        if failed := [s.group for s in summaries if s.failed]:
            raise AirflowException(f"WAL groups were not shipped: {', '.join(failed)}")
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
