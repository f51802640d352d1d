"""A Spark Connect server as an Airflow connection of the Spark provider's type `spark_connect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk.exceptions import AirflowNotFoundException

from walferry.errors import WalferryError

if TYPE_CHECKING:  # gRPC is imported only by tasks that use a server
    from walferry.spark.connect.server import Address

MAX_TASKS = 1000


class SparkConnectError(WalferryError):
    """A connection to a Spark Connect server that cannot be used as it is."""

    retry_helps = False


class WalferryConnectHook(SparkConnectHook):
    """Reads a connection: host, port, login (whose sessions), password (the server's token), extra `use_ssl` and `tasks`."""

    def address(self) -> Address | None:
        """Where the server is; None if there is no such connection. Raises WalferryError, which names the field at fault."""
        from walferry.spark.connect.server import DEFAULT_PORT, Address

        try:
            conn = self.get_connection(self._conn_id)
        except AirflowNotFoundException:
            return None
        host = (conn.host or "").removeprefix("sc://")
        if not host or "/" in host:
            raise SparkConnectError(f"connection {self._conn_id!r}: its host must be a server's name or address, not {host!r}")
        tls = str(conn.extra_dejson.get(self.PARAM_USE_SSL, False)).lower() == "true"
        tasks = conn.extra_dejson.get("tasks", Address.tasks)
        if type(tasks) is not int or not 0 < tasks <= MAX_TASKS:
            raise SparkConnectError(f"connection {self._conn_id!r}: `tasks` in its extra must be a number from 1 to {MAX_TASKS}")
        address = Address(host, conn.port or DEFAULT_PORT, conn.login or "walferry", conn.password or "", tls, tasks)
        if address.token and not tls and not address.local:
            raise SparkConnectError(
                f"connection {self._conn_id!r}: the token would travel to {address} unencrypted",
                'Have the server, or a proxy before it, use TLS, and add {"use_ssl": true} to its extra',
            )
        return address
