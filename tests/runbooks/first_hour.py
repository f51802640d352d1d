"""The world of the tutorial docs/first-batch.md: two clusters without a peer, and Airflow as docs/install.md starts it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo import commands
from demo.airflow_standalone import Airflow
from demo.site import Site
from embedded.client import GLOBAL, LOCAL, ClientJvm, JavaClient
from embedded.wire import put
from tests.cluster.classic_failover import tried_again
from tests.runbooks.reading import RunbookError

TABLE = "first"
DAG = "replicate_peer"
_SHELL = re.compile(r"(source|peer)> (\w+) '(\w+)', (.+)")
_FAMILY = re.compile(r"'(\w+)'|\{NAME => '(\w+)', REPLICATION_SCOPE => 1\}")


@dataclass(frozen=True)
class FirstHour:
    """Two clusters and Airflow."""

    clients: Mapping[str, JavaClient]  # by the prompts of the tutorial
    environment: dict[str, str]

    def act(self, what: str) -> None:
        """Do what a line of HBase's shell does. Raises RunbookError."""
        typed = _SHELL.fullmatch(what)
        verbs: dict[str, Callable[[JavaClient, str, str], None]] = {"create": _create, "put": _put}
        if typed is None or typed[2] not in verbs:
            raise RunbookError(f"this is not done here: {what}")
        verbs[typed[2]](self.clients[typed[1]], typed[3], typed[4])

    def check(self) -> None:
        """Compare both sides with HBase's own client."""
        source, peer = (tried_again(lambda client=client: client.scan_all(TABLE)) for client in self.clients.values())
        if len(source) < 2 or source != peer:
            raise RunbookError(f"the source has {source}, and the peer cluster {peer}")


def _create(client: JavaClient, table: str, rest: str) -> None:
    family = _FAMILY.fullmatch(rest)
    if family is None:
        raise RunbookError(f"this is not a family: {rest}")
    client.create_table(table, {family[1] or family[2]: LOCAL if family[1] else GLOBAL})


def _put(client: JavaClient, table: str, rest: str) -> None:
    row, column, value = re.findall(r"'([^']*)'", rest)
    client.write(table, [put(row, {column: value.encode()})])


@contextmanager
def first_hour(folder: Path) -> Iterator[FirstHour]:
    """Two clusters that have no tables, and Airflow with its DAGs paused."""
    site = Site(folder)
    source = {"AIRFLOW_CONN_HBASE_SOURCE": json.dumps({**json.loads(site.connection), "conn_type": "hbase_source"})}
    airflow = Airflow(folder / "airflow", source)
    try:
        site.launch()
        airflow.launch()
        site.await_ready()
        with ClientJvm(folder / "client") as jvm:
            clients = {"source": jvm.client(site.source.address), "peer": jvm.client(site.peer_cluster.address)}
            airflow.await_dag(DAG)
            own = {**airflow.environment, "PEER_CLUSTER": site.peer_cluster.address.cluster_key}
            yield FirstHour(clients, commands.environment(folder / "bin", own))
    finally:
        airflow.stop()
        site.kill()
