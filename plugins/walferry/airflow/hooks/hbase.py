"""The source cluster as an Airflow connection."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from walferry.airflow.provider import CONN_TYPE, HOOK_NAME
from walferry.source.cluster import DEFAULT_CONN_ID, SourceCluster, SourceError
from walferry.source.connection import from_text


class HBaseSourceHook(BaseHook):
    """Reads the connection of a source cluster; its fields are described in walferry.source.cluster."""

    conn_name_attr = "conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONN_TYPE
    hook_name = HOOK_NAME

    def __init__(self, conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def get_conn(self) -> SourceCluster:
        """Read and check the connection. Raises SourceError, which names the connection and the field at fault."""
        try:
            conn = self.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            raise _not_defined(self.conn_id) from error
        return _checked(conn, self.conn_id)


def from_airflow(conn_id: str) -> SourceCluster:
    """Read the connection from where Airflow keeps it, outside of any task: as `airflow connections get` does.

    That is Airflow's environment, its secrets backends, and its database. Raises SourceError.
    """
    from airflow.models.connection import Connection

    try:
        conn = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException as error:
        raise _not_defined(conn_id) from error
    except AirflowException as error:
        raise SourceError(f"connection {conn_id!r} cannot be read from Airflow: {error}") from error
    return _checked(conn, conn_id)


def _not_defined(conn_id: str) -> SourceError:
    return SourceError(
        f"connection {conn_id!r} is not defined: add one of type generic (host: ZooKeeper quorum, port, "
        f'extra: {{"wal_root": "hdfs://…"}}), or set AIRFLOW_CONN_{conn_id.upper()}'
    )


def _checked(conn: Any, conn_id: str) -> SourceCluster:
    # Not the password itself: it only matters whether there is one.
    fields = {"host": conn.host, "port": conn.port, "extra": conn.extra, "password": "set" if conn.password else ""}
    return from_text(json.dumps(fields), conn_id)
