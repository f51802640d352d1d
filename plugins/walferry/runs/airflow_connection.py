"""Reads connections from where Airflow keeps them. Only these functions import Airflow, which takes a second or more."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

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

MAX_SHOWN_CHARS = 250


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
