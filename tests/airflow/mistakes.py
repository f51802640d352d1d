"""The mistakes of docs/mistakes.md: its table as data, and functions that provoke each mistake without an HBase.

A function marked `@provokes("…")`, with the words of a row's first column, makes the mistake and returns the text that a user
reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kazoo.security import make_acl

from tests import doc_tables
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from tests.zk.stranger import stranger
from tests.zk.test_agreement import be_of, knows, master
from tests.zk.test_agreement import peer as as_the_master_tells
from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.operators.ship_wals import ShipWalsOperator
from walferry.airflow.operators.spark_job import ThroughConnect
from walferry.airflow.sources import configured
from walferry.base.errors import WalferryError
from walferry.cli.main import main
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.ship_run import ShipRun

NOWHERE = "127.0.0.1:1"


@dataclass(frozen=True)
class Row:
    """A row of the table: the mistake, where a user reads of it, and the text."""

    mistake: str
    where: str
    reported: str

    def fits(self, text: str) -> bool:
        """Return whether this row describes `text`. … stands for any text, and blanks may be line breaks."""
        parts = [r"\s+".join(map(re.escape, part.split())) for part in self.reported.split("…")]
        return re.fullmatch(r"\s*" + r".*?".join(rf"\s*{part}\s*" for part in parts) + r"\s*", text, re.DOTALL) is not None


def rows() -> list[Row]:
    """Return the table's rows."""
    cells = doc_tables.rows(doc_tables.page("mistakes.md"))
    return [Row(mistake, where, reported.strip("`").strip()) for mistake, where, reported in cells]


Provocation = Callable[[Any], str]
PROVOCATIONS: dict[str, Provocation] = {}


def provoking(provocations: dict[str, Provocation]) -> Callable[[str], Callable[[Provocation], Provocation]]:
    """Return a decorator that adds a function to `provocations`, for the mistake of a row."""

    def provokes(mistake: str) -> Callable[[Provocation], Provocation]:
        def mark(provocation: Provocation) -> Provocation:
            assert mistake not in provocations
            provocations[mistake] = provocation
            return provocation

        return mark

    return provokes


provokes = provoking(PROVOCATIONS)


@dataclass
class Site:
    """A cluster's znodes in a real ZooKeeper, a folder with its WALs, and Airflow."""

    hbase: HBaseZNodes
    quorum: str
    folder: Path
    patch: pytest.MonkeyPatch
    run_dag: Callable[..., Any]
    last_words: Callable[[], str]  # the end of the log of the task that failed first
    capsys: pytest.CaptureFixture[str]

    @property
    def source(self) -> SourceCluster:
        return SourceCluster(
            quorum=self.quorum, wal_root=f"file://{self.folder}", znode_parent=self.hbase.nodes.base, root=self.hbase.root
        )

    def connect(self, text: str | None = None, host: str | None = None, port: int | None = None, **extra: Any) -> None:
        """Define the connection: as `text`, or the right one with these changes."""
        fields = {
            "conn_type": "generic", "host": host or self.quorum, **({"port": port} if port else {}),
            "extra": {
                "wal_root": f"file://{self.folder}", "znode_parent": self.hbase.nodes.base, "walferry_root": self.hbase.root,
                **extra,
            },
        }  # fmt: skip
        self.patch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(fields) if text is None else text)

    def run(self, dag: str = "replicate_peer", **conf: Any) -> str:
        """Run a DAG. Returns the last words of the task that failed."""
        assert self.run_dag(dag, **conf).state == "failed"
        return self.last_words()

    def command(self, *words: str) -> str:
        """Run the command. Returns its error output."""
        self.capsys.readouterr()
        source = {"host": self.quorum, "extra": {"wal_root": self.source.wal_root, "znode_parent": self.hbase.nodes.base}}
        assert main(["--source", json.dumps(source), *words]) != 0
        return self.capsys.readouterr().err

    def ship_run(self, **changes: Any) -> ShipRun:
        return ShipRun(**{"source": self.source, "peer_id": "p", "run_id": "r", "deadline": 60.0, **changes})


def refused(call: Callable[[], object]) -> str:
    """Return the error with which the call is refused."""
    with pytest.raises(WalferryError) as error:
        call()
    return str(error.value)


def connection(**changes: Any) -> Provocation:
    """Return a connection with these changes, as its hook reads it."""

    def read(site: Site) -> str:
        site.connect(**changes)
        return refused(HBaseSourceHook().get_conn)

    return read


def batch_over(**changes: Any) -> Provocation:
    """Return a batch over a connection with these changes."""

    def ship(site: Site) -> str:
        site.connect(**changes)
        return site.run(peer="p")

    return ship


def run_with(*dag_id: str, **params: Any) -> Provocation:
    """Return a run with these parameters and the right connection: of replicate_peer, unless another DAG is named."""

    def start(site: Site) -> str:
        site.connect()
        return site.run(*dag_id, **params)

    return start


provokes("The connection's JSON is broken")(connection(text='{"conn_type": "generic", "host": "zk1'))
provokes("`wal_root` is missing")(connection(wal_root=None))
provokes("`wal_root` is a path, not a URL")(connection(wal_root="/hbase"))
provokes("A field of the extra is misspelt")(connection(walroot="hdfs://nn:8020/hbase"))
provokes("The quorum has something that is not a host")(connection(host="zk1;zk2"))
provokes("`znode_parent` without its slash")(connection(znode_parent="hbase"))
provokes("`queue_layout` that there is not")(connection(queue_layout="1.x"))
provokes("The archive lies inside `wal_root`")(connection(wal_root="file:///hbase", archive="file:///hbase/archive"))


@provokes("The connection is missing")
def _(site: Site) -> str:
    site.patch.delenv("AIRFLOW_CONN_HBASE_SOURCE", raising=False)
    return site.run()


provokes("A parameter is misspelt")(run_with(peers="p"))
provokes("The name of ZooKeeper's host is wrong")(batch_over(host="zk1.invalid"))
provokes("ZooKeeper's port is wrong")(batch_over(host=NOWHERE))


@provokes("Something else listens on that port")
def _(site: Site) -> str:
    with stranger() as port:
        site.connect(host=f"127.0.0.1:{port}")
        return site.run(peer="p")


provokes("`znode_parent` is another one")(batch_over(znode_parent="/hbase-unsecure"))


@provokes("The user may not read a znode")
def _(site: Site) -> str:
    site.connect()
    site.hbase.zk.set_acls(site.hbase.nodes.peers, [make_acl("ip", "10.255.255.255", all=True)])
    return site.run(peer="p")


provokes("There is no such peer")(run_with(peer="q", roll=False))


@provokes("The source runs HBase 3, and its connection does not say so")
def _(site: Site) -> str:
    site.connect()
    be_of(site.hbase, "3.0.0")
    site.hbase.zk.delete(site.hbase.nodes.queues, recursive=True)
    with master(site.hbase, *[knows(as_the_master_tells())] * 3):
        return site.run(peer="p", roll=False)


@provokes("The source runs HBase 0.94")
def _(site: Site) -> str:
    site.connect()
    site.hbase.zk.set(site.hbase.nodes.peer("p"), b"peer:2181:/hbase")
    site.hbase.zk.set(site.hbase.nodes.peer_state("p"), b"DISABLED")
    return site.run(peer="p", roll=False)


@provokes("The peer is enabled")
def _(site: Site) -> str:
    site.connect()
    site.hbase.add_peer("e", "ENABLED")
    return site.run(peer="e", roll=False)


@provokes("The peer is not managed")
def _(site: Site) -> str:
    site.connect()
    site.hbase.add_peer("n", config={})
    return site.run(peer="n", roll=False)


@provokes("A setting of the peer is misspelt")
def _(site: Site) -> str:
    site.connect()
    site.hbase.add_peer("s", config={"walferry.managed": "true", "walferry.sinc": "direct"})
    return site.run(peer="s", roll=False)


@provokes("The folder of `wal_root` is not there")
def _(site: Site) -> str:
    site.connect(wal_root=f"file://{site.folder}/nowhere")
    site.hbase.add_wal(SERVER, "p", wal(1))
    site.hbase.add_wal(SERVER, "p", wal(2))
    return site.run(peer="p", roll=False)


@provokes("`wal_root` is a folder without WALs")
def _(site: Site) -> str:
    (site.folder / "empty").mkdir()
    site.connect(wal_root=f"file://{site.folder}/empty")
    site.hbase.add_wal(SERVER, "p", wal(1))
    site.hbase.add_wal(SERVER, "p", wal(2))
    return site.run(peer="p", roll=False)


@provokes("HDFS cannot be reached")
def _(site: Site) -> str:
    site.connect(wal_root="hdfs://127.0.0.1:1/hbase")
    site.hbase.add_wal(SERVER, "p", wal(1))
    site.hbase.add_wal(SERVER, "p", wal(2))
    return site.run(peer="p", roll=False)


@provokes("The peer cluster's ZooKeeper cannot be reached")
def _(site: Site) -> str:
    return with_peer_cluster(site, f"{NOWHERE}:/hbase")


@provokes("The cluster key has another base than the peer cluster")
def _(site: Site) -> str:
    return with_peer_cluster(site, f"{site.quorum}:/hbase-unsecure")


def with_peer_cluster(site: Site, cluster_key: str) -> str:
    """Ship a peer that has this cluster key and queued edits."""
    site.connect()
    site.hbase.add_peer("d", clusterkey=cluster_key)
    for number in (1, 2):
        site.hbase.add_wal(SERVER, "d", wal(number))
    return site.run(peer="d", roll=False)


@provokes("A parameter has a wrong type")
def _(site: Site) -> str:
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.sdk.exceptions import ParamValidationError
    from airflow.utils.types import DagRunTriggeredByType

    with pytest.raises((ParamValidationError, ValueError)) as error:
        trigger_dag("replicate_peer", conf={"deadline": "soon"}, triggered_by=DagRunTriggeredByType.CLI)
    return str(error.value)


@provokes("A run is given another source")
def _(site: Site) -> str:
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.sdk.exceptions import ParamValidationError
    from airflow.utils.types import DagRunTriggeredByType

    with pytest.raises((ParamValidationError, ValueError)) as error:
        trigger_dag("replicate_peer", conf={"source_conn_id": "west"}, triggered_by=DagRunTriggeredByType.CLI)
    return str(error.value)


@provokes("A source's name is none")
def _(site: Site) -> str:
    site.patch.setenv("AIRFLOW__WALFERRY__SOURCES", "hbase_source,zk1:2181")
    return refused(lambda: configured().check())


@provokes("replicate_peer is backfilled")
def _(site: Site) -> str:
    from airflow.cli.cli_parser import get_parser
    from airflow.exceptions import DagRunTypeNotAllowed

    dates = ["--from-date", "2025-03-01", "--to-date", "2025-03-02"]
    args = get_parser().parse_args(["backfill", "create", "--dag-id", "replicate_peer", *dates])
    with pytest.raises(DagRunTypeNotAllowed) as error:
        args.func(args)
    return str(error.value)


provokes("replay_interval by hand without dates")(run_with("replay_interval", peer="p"))
provokes("initial_snapshot without a peer")(run_with("initial_snapshot"))
provokes("A live server is recovered")(run_with("regionserver_failover", server=SERVER))
provokes("The dead server is misspelt")(run_with("regionserver_failover", server="rs-1.example.org"))


@provokes("There is no such queue")
def _(site: Site) -> str:
    site.connect()
    site.hbase.add_wal(DEAD, "p", wal(1, DEAD))
    return site.run("drain_recovered_queue", queue=f"{DEAD}/q")


provokes("Broken WALs are to be put away, but there is no folder for them")(
    run_with("quarantine_wal", peer="p", wal=wal(1, DEAD))
)


def spark(site: Site, **environment: str) -> str:
    """Run spark-submit as the tasks do. Returns its error."""
    for name, value in {"AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}', **environment}.items():
        site.patch.setenv(name, value)
    with pytest.raises(AirflowException) as error:
        ShipWalsOperator(task_id="ship", peer="p", plan={}).submit({}, site.ship_run())
    return str(error.value)


@provokes("There is no Java")
def _(site: Site) -> str:
    return spark(site, JAVA_HOME=str(site.folder))


@provokes("Spark's master is misspelt")
def _(site: Site) -> str:
    return spark(site, AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "sparc://master", "port": 7077}')


@provokes("Spark's master cannot be reached")
def _(site: Site) -> str:
    return spark(site, AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "spark://127.0.0.1", "port": 1}')


@provokes("The Python for Spark is not there")
def _(site: Site) -> str:
    return spark(site, PYSPARK_PYTHON="python3.99")


def through_connect(site: Site, **fields: Any) -> str:
    """Have a Spark Connect server ship. Returns its error."""
    connection = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 1, **fields}
    site.patch.setenv("AIRFLOW_CONN_SPARK_CONNECT", json.dumps(connection))
    return f"spark-submit runs the job instead: {ThroughConnect('spark_connect').run(site.ship_run())}"


@provokes("The Spark Connect server is not there")
def _(site: Site) -> str:
    return through_connect(site)


@provokes("The token has a line break")
def _(site: Site) -> str:
    return through_connect(site, password="secret\n")


@provokes("A token would leave the machine unencrypted")
def _(site: Site) -> str:
    return through_connect(site, host="spark.example.org", password="secret")


@provokes("The command is given no connection")
def _(site: Site) -> str:
    site.patch.delenv("AIRFLOW_CONN_HBASE_SOURCE", raising=False)
    site.capsys.readouterr()
    assert main(["status"]) != 0
    return site.capsys.readouterr().err


@provokes("A cluster key that is none")
def _(site: Site) -> str:
    return site.command("peers", "create", "7", "--cluster-key", "zk1.west")
