"""The source cluster as an Airflow connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from walferry.airflow.provider import CONN_TYPE, HOOK_NAME
from walferry.replication.source.cluster import DEFAULT_CONN_ID, SourceCluster
from walferry.replication.source.peer_logins import PeerLogins
from walferry.runs.airflow_connection import from_airflow, peer_connection_from_airflow

MASTER_ABSENT = "absent"  # of the parameter `master`


class HBaseSourceHook(BaseHook):
    """Reads and checks the connection of a source cluster.

    :param conn_id: the connection
    """

    conn_name_attr = "conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONN_TYPE
    hook_name = HOOK_NAME

    def __init__(self, conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def get_conn(self) -> SourceCluster:
        """Read and check the connection. Raises SourceError, which names the connection and the field at fault."""
        source = from_airflow(self.conn_id, _of_task)
        return replace(source, peer_logins=PeerLogins(partial(peer_connection_from_airflow, read=_of_task)))


def source_of_run(params: Mapping[str, Any]) -> SourceCluster:
    """Return the cluster that a run's parameters name, and whether they say that it has no HMaster. Raises SourceError."""
    source = HBaseSourceHook(params["source_conn_id"]).get_conn()
    return replace(source, master_absent=params.get("master") == MASTER_ABSENT)


def _of_task(conn_id: str) -> Any:
    """Return a connection as a task sees it; None if there is none."""
    try:
        return HBaseSourceHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
