"""A Spark Connect server as an Airflow connection of the Spark provider's type `spark_connect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk.exceptions import AirflowNotFoundException

from walferry.runs.airflow_connection import connect_server_of

if TYPE_CHECKING:  # gRPC is imported only by tasks that use a server
    from walferry.jobs.connect.server import Address

CONNECT_CONN_ID = "spark_connect"


class WalferryConnectHook(SparkConnectHook):
    """Reads the connection to a Spark Connect server.

    Its fields: host, port, login (whose sessions), password (the server's token), extra `use_ssl` and `tasks`.
    """

    def address(self) -> Address | None:
        """Return the server's address; None without such a connection. Raises SparkConnectError, which names the wrong field."""
        try:
            conn = self.get_connection(self._conn_id)
        except AirflowNotFoundException:
            return None
        return connect_server_of(self._conn_id, conn)
