"""Which source cluster a command is for."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass

from walferry.source.cluster import DEFAULT_CONN_ID, SourceCluster
from walferry.source.connection import from_env, from_text

CONNECT_SECONDS = 10.0  # a ZooKeeper that is silent for longer is an error: nobody waits at a terminal for half a minute


@dataclass(frozen=True)
class Chosen:
    """What the command line says about the source cluster."""

    text: str | None = None
    conn_id: str | None = None

    @property
    def given(self) -> bool:
        """Whether a source cluster is named anywhere."""
        return bool(self.text or self.conn_id or os.environ.get(_variable(DEFAULT_CONN_ID)))

    def read(self) -> SourceCluster:
        """The source cluster, without asking whether it is there. Raises SourceError."""
        if self.text:
            return from_text(self.text)
        if self.conn_id is None:
            return from_env()
        if os.environ.get(_variable(self.conn_id)):
            return from_env(self.conn_id)
        with redirect_stdout(sys.stderr):  # Airflow logs to stdout, where only what was asked for belongs
            from walferry.airflow.hooks.hbase import from_airflow  # which takes Airflow a second or more

            return from_airflow(self.conn_id)

    def reached(self) -> SourceCluster:
        """The source cluster, whose ZooKeeper has answered just now. Raises SourceError, ConnectError."""
        from walferry.zk.client import connected

        source = self.read()
        with connected(source.quorum, CONNECT_SECONDS):
            return source


def _variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"
