"""The source cluster as an Airflow connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from walferry.airflow.provider import CONN_TYPE, HOOK_NAME
from walferry.replication.source.cluster import DEFAULT_CONN_ID, SourceCluster
from walferry.replication.source.slaves import SlaveConnection, SlaveLogins, slave_not_defined
from walferry.runs.airflow_connection import check_id, checked, checked_slave, not_defined


class HBaseSourceHook(BaseHook):
    """Reads the connection of a source cluster; its fields are described in walferry.replication.source.cluster."""

    conn_name_attr = "conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONN_TYPE
    hook_name = HOOK_NAME

    def __init__(self, conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def get_conn(self) -> SourceCluster:
        """Read and check the connection. Raises SourceError, which names the connection and the field at fault."""
        check_id(self.conn_id)
        try:
            conn = self.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            raise not_defined(self.conn_id) from error
        return replace(checked(conn, self.conn_id), slave_logins=SlaveLogins(_slave_of_task))


def _slave_of_task(conn_id: str) -> SlaveConnection:
    try:
        conn = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise slave_not_defined(conn_id) from error
    return checked_slave(conn, conn_id)
