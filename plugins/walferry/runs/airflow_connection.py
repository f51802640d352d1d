"""Reads connections from where Airflow keeps them. Only these functions import Airflow, which takes a second or more."""

from __future__ import annotations

import json
import os
from typing import Any

from walferry.base.texts import one_line
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.connection import from_text
from walferry.replication.source.fields import CONN_TYPES, Fields, check_is_hbase, is_conn_id
from walferry.replication.source.slaves import SlaveConnection, slave_from_fields, slave_from_text, slave_not_defined

MAX_SHOWN_CHARS = 250


def from_airflow(conn_id: str) -> SourceCluster:
    """Read the connection from where Airflow keeps it, outside of any task, as `airflow connections get` does.

    Airflow keeps connections in its environment, its secrets backends, and its database. Raises SourceError.
    """
    check_id(conn_id)
    conn = _kept(conn_id)
    if conn is None:
        raise not_defined(conn_id)
    return checked(conn, conn_id)


def slave_from_airflow(conn_id: str) -> SlaveConnection:
    """Read a slave's connection as `from_airflow` does. Raises SourceError."""
    conn = _kept(conn_id)
    if conn is None:
        raise slave_not_defined(conn_id)
    return checked_slave(conn, conn_id)


def _kept(conn_id: str) -> Any:
    from airflow.models.connection import Connection
    from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

    try:
        return Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None
    except AirflowException as error:  # the error's text may contain a secret
        raise SourceError(f"connection {conn_id!r} cannot be read from Airflow: {type(error).__name__}") from None


def check_id(conn_id: str) -> None:
    """Raise SourceError for a text from a form that is not a connection's id: secrets backends make paths of ids."""
    if not is_conn_id(conn_id):
        raise SourceError(f"{one_line(repr(conn_id), MAX_SHOWN_CHARS)} is not a connection's id")


def not_defined(conn_id: str) -> SourceError:
    """Return the error for a connection that Airflow has not found. Airflow does not find a connection that it cannot read."""
    if text := os.environ.get(f"AIRFLOW_CONN_{conn_id.upper()}"):
        try:
            from_text(text, conn_id)
        except SourceError as error:
            return error
    return SourceError(
        f"connection {conn_id!r} is not defined: add one of type generic (host: ZooKeeper quorum, port, "
        f'extra: {{"wal_root": "hdfs://…"}}), or set AIRFLOW_CONN_{conn_id.upper()}'
    )


def checked(conn: Any, conn_id: str) -> SourceCluster:
    """Return the source cluster that an Airflow connection describes. Raises SourceError."""
    if conn.conn_type not in CONN_TYPES:  # before its extra is read, unless its extra says what it is
        check_is_hbase(conn_id, Fields(conn.conn_type, None, None, {"wal_root": ""}, False))
    # Not the password itself: it only matters whether the connection has one.
    fields = {"conn_type": conn.conn_type, "host": conn.host, "port": conn.port, "extra": conn.extra}
    return from_text(json.dumps({**fields, "password": "set" if conn.password else ""}), conn_id)


def checked_slave(conn: Any, conn_id: str) -> SlaveConnection:
    """Return the slave that an Airflow connection describes. Raises SourceError."""
    if conn.conn_type not in CONN_TYPES:  # before its extra is read, which no error may show
        return slave_from_fields(Fields(conn.conn_type, None, None, {}, False), conn_id)
    fields = {"conn_type": conn.conn_type, "host": conn.host, "port": conn.port, "extra": conn.extra}
    return slave_from_text(json.dumps({**fields, "password": "set" if conn.password else ""}), conn_id)
