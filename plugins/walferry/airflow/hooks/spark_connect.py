"""A Spark Connect server as an Airflow connection of the Spark provider's type `spark_connect`."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk.exceptions import AirflowNotFoundException

from walferry.base.errors import WalferryError

if TYPE_CHECKING:  # gRPC is imported only by tasks that use a server
    from walferry.jobs.connect.server import Address

MAX_TASKS = 1000
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?", re.ASCII)


class SparkConnectError(WalferryError):
    """A connection to a Spark Connect server cannot be used as it is."""

    retry_helps = False


class WalferryConnectHook(SparkConnectHook):
    """Reads the connection to a Spark Connect server.

    Its fields: host, port, login (whose sessions), password (the server's token), extra `use_ssl` and `tasks`.
    """

    def address(self) -> Address | None:
        """Return the server's address; None without such a connection. Raises WalferryError, which names the wrong field."""
        from walferry.jobs.connect.server import DEFAULT_PORT, Address

        try:
            conn = self.get_connection(self._conn_id)
        except AirflowNotFoundException:
            return None
        host = (conn.host or "").removeprefix("sc://")
        if not _is_host(host):  # the error does not show the host: a token may have been put there
            raise SparkConnectError(
                f"connection {self._conn_id!r}: its host must be just a server's name or address",
                "The port and the token (the password) have fields of their own, `use_ssl` is in its extra",
            )
        token = conn.password or ""
        if not all("!" <= char <= "~" for char in token):
            raise SparkConnectError(
                f"connection {self._conn_id!r}: its password, the server's token, has a blank, a line break, or a character that "
                "is not ASCII, and so cannot be sent"
            )
        tls = str(conn.extra_dejson.get(self.PARAM_USE_SSL, False)).lower() == "true"
        tasks = conn.extra_dejson.get("tasks", Address.tasks)
        if type(tasks) is not int or not 0 < tasks <= MAX_TASKS:
            raise SparkConnectError(f"connection {self._conn_id!r}: `tasks` in its extra must be a number from 1 to {MAX_TASKS}")
        address = Address(host, conn.port or DEFAULT_PORT, conn.login or "walferry", token, tls, tasks)
        if address.token and not tls and not address.local:
            raise SparkConnectError(
                f"connection {self._conn_id!r}: the token would travel to {address} unencrypted",
                'Have the server, or a proxy before it, use TLS, and add {"use_ssl": true} to its extra',
            )
        return address


def _is_host(text: str) -> bool:
    """Return whether the text is the name of a host, or an IP address, in brackets or not."""
    try:
        ipaddress.ip_address(text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return "%" not in text  # a zone
