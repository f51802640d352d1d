"""A source and a peer cluster with Phoenix 5, and what JDBC finds on both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from embedded.client import ClientJvm, JavaClient
from embedded.phoenix import CONF, PhoenixSql, phoenix_classpath
from embedded.standalone import StandaloneCluster
from tests.conftest import side_by_side

COMPRESSION = {"hbase.regionserver.wal.enablecompression": "true"}
INDEXES = ("CREATE INDEX PEOPLE_BY_NAME ON PEOPLE (NAME) INCLUDE (CITY)", "CREATE LOCAL INDEX PEOPLE_BY_CITY ON PEOPLE (CITY)")
UPSERT = "UPSERT INTO PEOPLE (ORG, ID, NAME, CITY) VALUES (?, ?, ?, ?)"
QUERIES = {  # by the table or index that Phoenix reads
    "OVER PEOPLE": "SELECT /*+ NO_INDEX */ * FROM PEOPLE ORDER BY ORG, ID",
    "OVER PEOPLE_BY_NAME": "SELECT NAME, CITY FROM PEOPLE WHERE NAME > 'name 3' ORDER BY NAME",
    "OVER PEOPLE_BY_CITY(PEOPLE)": "SELECT CITY FROM PEOPLE WHERE CITY = 'city 2'",
}
VIEWS = "SELECT TENANT_ID, TABLE_NAME FROM SYSTEM.CATALOG WHERE TABLE_TYPE = 'v' ORDER BY TABLE_NAME"


def create_people(*, more: str = "") -> str:
    """Return the statement that creates the table; `more` are more of its properties, each after a comma."""
    return (
        "CREATE TABLE PEOPLE (ORG VARCHAR NOT NULL, ID BIGINT NOT NULL, NAME VARCHAR, CITY VARCHAR"
        f" CONSTRAINT PK PRIMARY KEY (ORG, ID)) MULTI_TENANT=true, REPLICATION_SCOPE=1{more}"
    )


def people(first: int, rows: int) -> list[tuple[str, int, str, str]]:
    """Return rows for UPSERT, of two tenants in turns."""
    return [("acme" if i % 2 else "other", i, f"name {i}", f"city {i % 5}") for i in range(first, first + rows)]


@dataclass(frozen=True)
class Phoenix:
    """A source and a peer cluster with Phoenix, and a JVM with its jars."""

    source: StandaloneCluster
    peer_cluster: StandaloneCluster
    jvm: ClientJvm

    def clients(self) -> tuple[JavaClient, JavaClient]:
        return self.jvm.client(self.source.address), self.jvm.client(self.peer_cluster.address)

    def sql(self, tenant: str | None = None) -> tuple[PhoenixSql, PhoenixSql]:
        source, peer_cluster = (PhoenixSql(self.jvm, each.address, tenant) for each in (self.source, self.peer_cluster))
        return source, peer_cluster


@contextmanager
def phoenix_pair(folder: Path, source: Mapping[str, str], peer_cluster: Mapping[str, str]) -> Iterator[Phoenix]:
    """Run two clusters in `folder` with these settings and Phoenix's."""
    jars = phoenix_classpath()
    clusters = [
        StandaloneCluster(folder / name, {**CONF, **conf}, heap="1g", name=name, classpath=jars)
        for name, conf in {"source": source, "peer": peer_cluster}.items()
    ]
    with ExitStack() as running:
        running.enter_context(side_by_side(clusters))
        classpath = [*jars, clusters[0].address.hbase_site.parent]
        yield Phoenix(*clusters, running.enter_context(ClientJvm(folder / "client", classpath=classpath)))  # type: ignore[call-arg]


def compare_sql(here: PhoenixSql, there: PhoenixSql) -> None:
    """Check that JDBC reads the same rows on both clusters from the table and from each index."""
    for source, query in QUERIES.items():
        (plan, *_), *_ = there.select(f"EXPLAIN {query}")
        assert plan.endswith(source) or f"{source} " in plan, plan
        rows = here.select(query)
        assert rows, query
        assert there.select(query) == rows, query
