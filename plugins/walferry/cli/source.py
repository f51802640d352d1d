"""Chooses the source cluster of a command, and reads connections."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the modules that read connections import ZooKeeper's client, which --help does without
    from walferry.jobs.connect.server import Address
    from walferry.replication.source.cluster import SourceCluster
    from walferry.replication.source.peer_logins import PeerConnection

CONNECT_SECONDS = 10.0  # an error comes after this time: a user at a terminal does not wait for half a minute


@dataclass(frozen=True)
class Chosen:
    """The choice of the source cluster on the command line."""

    text: str | None = None
    conn_id: str | None = None

    @property
    def given(self) -> bool:
        """Whether the command line or the environment names a source cluster."""
        from walferry.replication.source.cluster import DEFAULT_CONN_ID

        return bool(self.text or self.conn_id or os.environ.get(_variable(DEFAULT_CONN_ID)))

    def read(self) -> SourceCluster:
        """Return the source cluster, without asking whether it is there. Raises SourceError."""
        from walferry.replication.source.peer_logins import PeerLogins

        return replace(self._read(), peer_logins=PeerLogins(_peer_cluster))

    def _read(self) -> SourceCluster:
        from walferry.replication.source.cluster import SourceError
        from walferry.replication.source.connection import from_env, from_text

        if self.text:
            return from_text(self.text, conn_id=None)
        if self.conn_id is None:
            return from_env()
        if os.environ.get(_variable(self.conn_id)):
            return from_env(self.conn_id)
        if find_spec("airflow") is None:
            raise SourceError(
                f"connection {self.conn_id!r} is not defined: {_variable(self.conn_id)} is not set, and no Airflow is installed "
                "beside this command, which could keep it"
            )
        with redirect_stdout(sys.stderr):  # Airflow logs to stdout, where only the command's output belongs
            from walferry.runs.airflow_connection import from_airflow  # Airflow takes a second or more for this

            return from_airflow(self.conn_id)

    def reached(self, *, master_absent: bool = False) -> SourceCluster:
        """Return the source cluster, whose ZooKeeper has answered just now. Raises SourceError, ConnectError."""
        from walferry.base.zk.client import connected

        source = replace(self.read(), master_absent=master_absent)
        with connected(source.quorum, CONNECT_SECONDS, login=source.login):
            return source


def _peer_cluster(conn_id: str) -> PeerConnection:
    """Return a peer cluster's connection, from the environment, or from where Airflow keeps it. Raises SourceError."""
    from walferry.replication.source.peer_logins import peer_connection_from_env, peer_connection_not_defined

    if (found := peer_connection_from_env(conn_id)) is not None:
        return found
    if find_spec("airflow") is None:
        raise peer_connection_not_defined(conn_id)
    with redirect_stdout(sys.stderr):
        from walferry.runs.airflow_connection import peer_connection_from_airflow

        return peer_connection_from_airflow(conn_id)


def connect_server(conn_id: str) -> Address:
    """Return the Spark Connect server of a connection, from where Airflow keeps it. Raises SourceError, SparkConnectError."""
    from walferry.runs.airflow_connection import SparkConnectError, connect_server_from_airflow

    if find_spec("airflow") is None:
        raise SparkConnectError(
            f"connection {conn_id!r} cannot be read: no Airflow is installed beside this command",
            "Call the command in Airflow's environment: only Airflow's tasks use Spark",
        )
    with redirect_stdout(sys.stderr):  # Airflow logs to stdout, where only the command's output belongs
        return connect_server_from_airflow(conn_id)


def _variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"
