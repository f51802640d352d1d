"""Reads connections from where Airflow keeps them. Only these functions import Airflow, which takes a second or more."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.connection import from_text
from walferry.replication.source.fields import CONN_TYPES, Fields, check_is_hbase, is_conn_id
from walferry.replication.source.peer_logins import (
    PeerConnection,
    peer_connection_from_fields,
    peer_connection_from_text,
    peer_connection_not_defined,
)

if TYPE_CHECKING:  # gRPC is imported only by those that use a server
    from walferry.jobs.connect.server import Address

MAX_SHOWN_CHARS = 250
MAX_TASKS = 1000
CONNECT_TYPE = "spark_connect"
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?", re.ASCII)


class SparkConnectError(WalferryError):
    """A connection to a Spark Connect server cannot be used as it is."""

    retry_helps = False


def kept(conn_id: str) -> Any:
    """Return a connection from where Airflow keeps it, outside of any task, as `airflow connections get` does; None without one.

    Airflow keeps connections in its environment, its secrets backends, and its database. Raises SourceError.
    """
    from airflow.models.connection import Connection
    from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

    try:
        return Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None
    except AirflowException as error:  # the error's text may contain a secret
        raise SourceError(f"connection {conn_id!r} cannot be read from Airflow: {type(error).__name__}") from None


def from_airflow(conn_id: str, read: Callable[[str], Any] = kept) -> SourceCluster:
    """Return the source cluster that a connection of Airflow describes. Raises SourceError."""
    if not is_conn_id(conn_id):  # a text from a form; secrets backends make paths of ids
        raise SourceError(f"{one_line(repr(conn_id), MAX_SHOWN_CHARS)} is not a connection's id")
    conn = read(conn_id)
    if conn is None:
        raise _not_defined(conn_id)
    if conn.conn_type not in CONN_TYPES:  # before its extra is read, unless its extra says what it is
        check_is_hbase(conn_id, Fields(conn.conn_type, None, None, {"wal_root": ""}, False))
    return from_text(_as_text(conn), conn_id)


def peer_connection_from_airflow(conn_id: str, read: Callable[[str], Any] = kept) -> PeerConnection:
    """Return the peer cluster that a connection of Airflow describes. Raises SourceError."""
    conn = read(conn_id)
    if conn is None:
        raise peer_connection_not_defined(conn_id)
    if conn.conn_type not in CONN_TYPES:  # before its extra is read, which no error may show
        return peer_connection_from_fields(Fields(conn.conn_type, None, None, {}, False), conn_id)
    return peer_connection_from_text(_as_text(conn), conn_id)


def connect_server_from_airflow(conn_id: str, read: Callable[[str], Any] = kept) -> Address:
    """Return the Spark Connect server of a connection of Airflow. Raises SourceError, SparkConnectError."""
    conn = read(conn_id) if is_conn_id(conn_id) else None
    if conn is None:
        raise SparkConnectError(
            f"connection {one_line(repr(conn_id), MAX_SHOWN_CHARS)} is not defined",
            "Add one of type spark_connect (docs/spark.md); without it Airflow runs jobs by spark-submit",
        )
    return connect_server_of(conn_id, conn)


def connect_server_of(conn_id: str, conn: Any) -> Address:
    """Return the Spark Connect server that a connection describes. Raises SparkConnectError, which names the wrong field."""
    from walferry.jobs.connect.server import DEFAULT_PORT, Address

    if conn.conn_type != CONNECT_TYPE:  # its password is for something else
        raise SparkConnectError(
            f"connection {conn_id!r} is of type {one_line(repr(conn.conn_type), MAX_SHOWN_CHARS)}, not {CONNECT_TYPE}"
        )
    host = (conn.host or "").removeprefix("sc://")
    if not _is_host(host):  # the error does not show the host: a token may have been put there
        raise SparkConnectError(
            f"connection {conn_id!r}: its host must be just a server's name or address",
            "The port and the token (the password) have fields of their own, `use_ssl` is in its extra",
        )
    token = conn.password or ""
    if not all("!" <= char <= "~" for char in token):
        raise SparkConnectError(
            f"connection {conn_id!r}: its password, the server's token, has a blank, a line break, or a character that "
            "is not ASCII, and so cannot be sent"
        )
    tls = str(conn.extra_dejson.get("use_ssl", False)).lower() == "true"
    tasks = conn.extra_dejson.get("tasks", Address.tasks)
    if type(tasks) is not int or not 0 < tasks <= MAX_TASKS:
        raise SparkConnectError(f"connection {conn_id!r}: `tasks` in its extra must be a number from 1 to {MAX_TASKS}")
    address = Address(host, conn.port or DEFAULT_PORT, conn.login or "walferry", token, tls, tasks)
    if address.token and not tls and not address.local:
        raise SparkConnectError(
            f"connection {conn_id!r}: the token would travel to {address} unencrypted",
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


def _as_text(conn: Any) -> str:
    """Return the connection as JSON. Not the password itself: it only matters whether the connection has one."""
    fields = {"conn_type": conn.conn_type, "host": conn.host, "port": conn.port, "extra": conn.extra}
    return json.dumps({**fields, "password": "set" if conn.password else ""})


def _not_defined(conn_id: str) -> SourceError:
    """Return the error for a connection that Airflow has not found. Airflow does not find a connection that it cannot read."""
    if text := os.environ.get(f"AIRFLOW_CONN_{conn_id.upper()}"):
        try:
            from_text(text, conn_id)
        except SourceError as error:
            return error
    return SourceError(
        f"connection {conn_id!r} is not defined: add one of type {CONN_TYPES[0]} (host: ZooKeeper quorum, port, "
        f'extra: {{"wal_root": "hdfs://…"}}), or set AIRFLOW_CONN_{conn_id.upper()}'
    )
