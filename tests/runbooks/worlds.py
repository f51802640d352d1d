"""The clusters on which runbooks are carried out: the demo as a user starts it, and a cluster of HBase 1 for stuck regions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from kazoo.client import KazooClient

from demo import commands
from demo.state import VARIABLE, State, read_state
from embedded.client import LOCAL, ClientJvm, JavaClient
from embedded.masterless import MasterlessCluster
from embedded.wire import Cell
from tests.cluster.classic_failover import tried_again
from tests.cluster.walferry_runs import source_of
from tests.runbooks.carrying_out import run
from tests.runbooks.reading import RunbookError
from walferry.base.zk.client import connected
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc import admin as rpc
from walferry.master.catalog import read_catalog
from walferry.master.reconcile import Known
from walferry.master.states import RegionState
from walferry.master.tables import table_of
from walferry.master.znodes import encode_region, encoded_name

REPO = Path(__file__).resolve().parents[2]
REGIONS = "regions-stuck"  # the runbook that needs HBase 1
START_SECONDS = 900
WAIT_SECONDS = 120
DAGS = ("replicate_peer", "watch_replication")  # these DAGs would do the reader's work
TABLE, SYSTEM_TABLE, ROWS = "t", "hbase:namespace", 200


@dataclass(frozen=True)
class Demo:
    """A running demo. Its scheduled DAGs are paused, so that each step meets what the steps before it have left."""

    environment: dict[str, str]

    def act(self, what: str) -> None:
        """Run one of the demo's scripts."""
        if not what.startswith("python -m demo."):
            raise RunbookError(f"the demo cannot do this: {what}")
        self._run(what)

    def check(self) -> None:
        """Compare both sides with HBase's own client."""
        self._run("python -m demo.compare")

    def _run(self, command: str) -> None:
        status, printed = run(command, self.environment)
        if status != 0:
            raise RunbookError(f"the exit status is {status}:\n{printed}")


@contextmanager
def running_demo(folder: Path) -> Iterator[Demo]:
    """`python -m demo`, as a user starts it."""
    environment = {**os.environ, VARIABLE: str(folder / "state.json")}
    environment.pop("DEMO_ONCE", None)
    log = folder / "demo.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-m", "demo"],
            cwd=REPO,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            state = _await_state(process, folder / "state.json", log)
            demo = Demo({**state.environment, VARIABLE: str(folder / "state.json")})
            for dag in DAGS:
                demo._run(f"airflow dags pause {dag}")
            yield demo
        finally:
            descendants = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.terminate()
            psutil.wait_procs(descendants, timeout=WAIT_SECONDS)


def _await_state(process: subprocess.Popen[bytes], path: Path, log: Path) -> State:
    give_up = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < give_up:
        if path.exists():
            return read_state(path)
        time.sleep(1)
    raise RunbookError(f"the demo did not start: {log.read_text()[-4000:]}")


@dataclass
class HBase1:
    """A cluster of HBase 1 with two RegionServers. Its rows are not flushed."""

    cluster: MasterlessCluster
    client: JavaClient
    cells: list[Cell]
    zk: KazooClient
    nodes: ZNodes
    environment: dict[str, str] = field(default_factory=dict)

    def act(self, what: str) -> None:
        """Let one of these things happen."""
        acts: dict[str, Callable[[], None]] = {
            "an HMaster hangs behind a region": self._hang,
            "a region is closed while there is no HMaster": self._close_a_region,
            "an HMaster is started": self.cluster.start_master,
        }
        if what not in acts:
            raise RunbookError(f"nobody can do this here: {what}")
        acts[what]()

    def check(self) -> None:
        """Check that the HMaster is ready and finds nothing wrong, and that no row is missing."""
        self.cluster.await_ready()
        report = self.cluster.hbck()
        if report.inconsistencies:
            raise RunbookError(report.text)
        if tried_again(lambda: self.client.scan_all(TABLE)) != self.cells:
            raise RunbookError("rows are missing")

    def _hang(self) -> None:
        """Leave a region as a server does that has begun to open it, and forgets it while there is no HMaster."""
        known = self._region_of(SYSTEM_TABLE)
        assert known.server is not None
        encoded = encoded_name(known.name)
        self.cluster.kill_master()
        rpc.close_copy(known.server, encoded)
        path = self.nodes.region_in_transition(encoded)
        self.zk.create(path, encode_region(known.name, RegionState.OPENING, known.server))
        self.cluster.launch_master()
        master = self.cluster.master
        assert master is not None
        waits = f"Processing {encoded} in state: RS_ZK_REGION_OPENING"
        self._wait_for(lambda: waits in master.log_text(), "the HMaster waits for the region")

    def _close_a_region(self) -> None:
        self.cluster.kill_master()
        known = self._region_of(TABLE)
        assert known.server is not None
        rpc.close_copy(known.server, encoded_name(known.name))

    def _region_of(self, table: str) -> Known:
        regions = read_catalog(self.zk, self.nodes).regions.values()
        return next(known for known in regions if table_of(known.info) == table)

    def _wait_for(self, done: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + WAIT_SECONDS
        while not done():
            if time.monotonic() > give_up:
                raise RunbookError(f"not within {WAIT_SECONDS} s: {what}")
            time.sleep(0.2)


@contextmanager
def hbase_1(folder: Path) -> Iterator[HBase1]:
    """A cluster of HBase 1 whose HMaster works."""
    with ClientJvm(folder / "client") as jvm, MasterlessCluster(folder) as cluster:
        for _ in range(2):
            cluster.launch_regionserver()
        cluster.start_master()
        at = source_of(cluster.address)
        connection = {"host": at.quorum, "extra": {"wal_root": at.wal_root, "znode_parent": at.znode_parent}}
        with connected(at.quorum) as zk:
            client = jvm.client(cluster.address)
            client.create_table(TABLE, {"f": LOCAL}, [b"5", b"a"])
            client.put_many(TABLE, ROWS, ["f:q"])
            environment = commands.environment(folder / "bin", {"PATH": os.environ["PATH"]})
            environment["AIRFLOW_CONN_HBASE_SOURCE"] = json.dumps({"conn_type": "generic", **connection})
            yield HBase1(cluster, client, client.scan_all(TABLE), zk, at.nodes, environment)
