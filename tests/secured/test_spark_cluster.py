"""Secured jobs on a standalone Spark cluster, whose executors are JVMs of their own, on machines of their own.

A worker's machine is played by its folder: keytabs are named by a path that is a link into the `etc` of whichever machine the
process runs on. Its environment is not that of the tests: it knows no realm, and has other variables of Kerberos.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from embedded.cache import cache_home
from embedded.client import GLOBAL, even_splits
from embedded.hdfs import Hdfs, HdfsSecurity
from embedded.kerberos import Kerberos
from embedded.secured import HBASE
from embedded.secured_site import EAST, USER, WEST
from embedded.spark import submit_script
from embedded.spark_cluster import Host, SparkCluster
from embedded.wire import put
from tests.cluster.spark_runs import Finished, Job
from tests.cluster.walferry_runs import plan, roll
from tests.secured.peers import CONN_ID, Pair
from walferry.base.security.login import Kerberos as Identity
from walferry.base.security.login import Login
from walferry.hbase.files import clients, logins
from walferry.hbase.files.systems import write_file
from walferry.jobs.session_settings import kerberos_settings
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster, for_peer_cluster

JOB_IN_TURN = Path(__file__).with_name("ships_in_turn.py")
ROWS, WALS, VALUE_BYTES = 300, 4, 4000  # enough for a load by several tasks
SOON_SECONDS = 10.0  # of a task, on a machine that does other things too
JOB_SECONDS = 120
ODD = {
    "KRB5_CONFIG": None, "KRB5CCNAME": "ODD:cache", "KRB5_CLIENT_KTNAME": "FILE:/no/such.keytab", "KRB5_KTNAME": "FILE:/no/such",
    "HOME": "/no/such/home", "XDG_CACHE_HOME": None, "USER": "nobody", "LOGNAME": "nobody",
    "WALFERRY_CACHE": str(cache_home()),
}  # fmt: skip
# HBase loads only files that the principal's short name may read and write (HStore.assertBulkLoadHFileOk). On local files they
# belong to whoever runs the executors, so all may; on HDFS they belong to the principal.
HOSTS = (Host(ODD, umask=0),) * 2
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": str(len(HOSTS)),
    # No task begins before all executors are there, however long they take to start on a busy machine.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{JOB_SECONDS}s",
}


@dataclass(frozen=True)
class Machines:
    """A Spark cluster, and the machine of its drivers."""

    spark: SparkCluster
    driver: Path

    @property
    def keytabs(self) -> Path:
        """The path of the keytabs on all machines."""
        return self.spark.folder / "keytabs"

    @property
    def all(self) -> list[Path]:
        return [self.driver, *self.workers]

    @property
    def workers(self) -> list[Path]:
        return [self.spark.host_folder(number) for number in range(len(HOSTS))]

    def install(self, keytabs: Sequence[Path]) -> None:
        """Put the keytabs on each machine."""
        for machine in self.all:
            (machine / "etc").mkdir(parents=True, exist_ok=True)
            for keytab in keytabs:
                shutil.copy(keytab, machine / "etc")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    folder = tmp_path_factory.mktemp("spark")
    machines = Machines(SparkCluster(folder, hosts=HOSTS), folder / "driver")
    machines.keytabs.symlink_to("/proc/self/cwd/../../../etc")  # processes run three folders below their machine's
    (machines.driver / "work/app/0").mkdir(parents=True)
    with machines.spark:
        yield machines


@pytest.fixture(scope="module")
def hdfs(kerberos: Kerberos, cluster_folder: Path) -> Iterator[Hdfs]:
    """The source's HDFS, for its WALs."""
    hdfs = Hdfs(cluster_folder / "hdfs", security=HdfsSecurity(kerberos, f"{HBASE}@{EAST}"))
    try:
        hdfs.start()
        yield hdfs
    finally:
        hdfs.kill()


@dataclass(frozen=True)
class Backlog:
    """WALs on the source's HDFS that wait for jobs, and the source as these see it."""

    pair: Pair
    machines: Machines
    source: SourceCluster
    table: str
    folder: Path

    def job(self, sink: SinkKind, source: SourceCluster | None = None) -> Job:
        """Start a job as Walferry's operator does; it has no other settings but those of a spark-defaults.conf."""
        return Job(
            source or self.source, self.pair.peer, f"run-{time.monotonic_ns()}", self.folder, sink=sink,
            master=self.machines.spark.master, conf=self.conf,
        )  # fmt: skip

    def run(self, sink: SinkKind, source: SourceCluster | None = None) -> Finished:
        with self.job(sink, source) as job:
            return job.finish(JOB_SECONDS)

    def check_shipped(self, done: Finished) -> None:
        assert done.code == 0, done.output
        assert self.pair.peer_cluster.scan_all(self.table, raw=True) == self.pair.source.scan_all(self.table, raw=True)
        assert not plan(self.source_here, self.pair.peer).to_ship

    @property
    def conf(self) -> dict[str, str]:
        """Spark's settings."""
        return {**kerberos_settings(os.environ), **CONF}

    @property
    def source_here(self) -> SourceCluster:
        return self.pair.at(SinkKind.DIRECT)


@pytest.fixture
def backlog(
    pair: Pair, machines: Machines, hdfs: Hdfs, kerberos: Kerberos, unique: Callable[[str], str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Backlog:  # fmt: skip
    monkeypatch.setattr(logins, "_logins", {})
    monkeypatch.setattr(clients, "_file_systems", {})
    monkeypatch.chdir(machines.driver / "work/app/0")
    table, here = unique("t"), pair.at(SinkKind.DIRECT)
    pair.source.create_table(table, {"f": GLOBAL}, even_splits(2))
    pair.peer_cluster.create_table(table, {"f": GLOBAL}, even_splits(4))
    for wal in range(WALS):
        # In all regions: a load has a task for each region that gets rows, and each executor has to get one of them.
        pair.source.write(table, [put(f"{n % 16:x}-{wal}-{n}", {"f:a": b"v" * VALUE_BYTES}) for n in range(ROWS)])
        roll(here, pair.peer)
    root = f"{hdfs.url}/{table}"
    copy_wals(here, root, kerberos)
    machines.install(keytabs_of(pair))
    return Backlog(pair, machines, there(here, pair, machines, root), table, tmp_path)


def copy_wals(here: SourceCluster, root: str, kerberos: Kerberos) -> None:
    """Copy a source's WALs from its local files to a folder on HDFS, as HBase's own user."""
    hbase = f"{HBASE}@{EAST}"
    logins.log_in(root, Identity(principal=hbase, keytab=str(kerberos.keytab(hbase))))
    local = Path(here.wal_root.removeprefix("file://"))
    for wal in [path for name in ("WALs", "oldWALs") for path in (local / name).rglob("*") if path.is_file()]:
        write_file(f"{root}/{wal.relative_to(local)}", wal.read_bytes())


def keytabs_of(pair: Pair) -> list[Path]:
    """Return the keytabs of both sides' users."""
    return [Path(site.fields()["keytab"]) for site in (pair.source_site, pair.peer_site)]


def queued(backlog: Backlog) -> dict[str, int]:
    """The WALs that a job may ship, with their positions."""
    return {wal.name: wal.position for group in plan(backlog.source_here, backlog.pair.peer).groups for wal in group.wals}


def there(here: SourceCluster, pair: Pair, machines: Machines, root: str) -> SourceCluster:
    """The source with its WALs on HDFS, and with keytabs by the path that all machines have."""

    def moved(login: Login) -> Login:
        assert login.kerberos
        assert login.kerberos.keytab
        keytab = machines.keytabs / Path(login.kerberos.keytab).name
        return replace(login, kerberos=replace(login.kerberos, keytab=str(keytab)))

    peer_cluster = for_peer_cluster(CONN_ID, pair.key)
    return replace(
        here, wal_root=root, login=moved(here.login), peer_clusters={peer_cluster: moved(here.peer_clusters[peer_cluster])}
    )


on_a_peer_cluster = pytest.mark.parametrize("peer_site", ["privacy-tls"], indirect=True)


def on_local_files(backlog: Backlog) -> SourceCluster:
    """The source with its WALs where HBase has them: a peer cluster on local files takes files of no other file system."""
    return replace(backlog.source, wal_root=backlog.source_here.wal_root)


@on_a_peer_cluster
def test_executors_that_know_no_realm_ship_from_a_secured_hdfs_to_another_realm(backlog: Backlog) -> None:
    done = backlog.run(SinkKind.DIRECT)
    backlog.check_shipped(done)
    assert "shipped 4 WALs" in done.output


@on_a_peer_cluster
@pytest.mark.parametrize("realm", [EAST, pytest.param(WEST, marks=pytest.mark.soak)])
def test_a_keytab_that_only_the_driver_s_machine_has_is_named_at_once(backlog: Backlog, realm: str) -> None:
    name = f"{USER}@{realm}.keytab"
    for machine in backlog.machines.workers:
        (machine / "etc" / name).unlink()
    before = queued(backlog)
    done = backlog.run(SinkKind.DIRECT)
    assert done.code == 1, done.output
    (summary,) = done.summaries
    assert (summary["status"], summary["passing"]) == ("failed", False), "the operator submits the job once"
    assert f"keytab {backlog.machines.keytabs / name} cannot be read: No such file" in summary["error"]
    assert f"(on {socket.gethostname()})" in summary["error"]
    assert summary["seconds"] < SOON_SECONDS
    assert queued(backlog) == before
    assert backlog.pair.peer_cluster.scan_all(backlog.table) == []


@on_a_peer_cluster
def test_a_load_goes_on_without_an_executor_that_is_killed(backlog: Backlog) -> None:
    source, spark = on_local_files(backlog), backlog.machines.spark
    with backlog.job(SinkKind.HFILES, source) as job:
        give_up = time.monotonic() + JOB_SECONDS
        while not (running := [each for each in spark.executors if each.process and "Running task" in each.log]):
            assert job.running, job.output
            assert time.monotonic() < give_up, job.output
            time.sleep(0.05)
        running[0].process.kill()
        done = job.finish(JOB_SECONDS)
    assert re.search(r"Lost executor \d+", done.output), done.output
    assert re.search(r"^loaded [1-9][\d,]* files with", done.output, re.MULTILINE), done.output
    backlog.check_shipped(done)


@on_a_peer_cluster
def test_a_load_of_which_one_machine_has_no_keytabs_loses_nothing(backlog: Backlog) -> None:
    for keytab in (backlog.machines.workers[1] / "etc").iterdir():
        keytab.unlink()
    done = backlog.run(SinkKind.HFILES, on_local_files(backlog))
    assert "cannot be read: No such file or directory" in done.output
    there = backlog.pair.peer_cluster.scan_all(backlog.table, raw=True)
    assert done.code == 1 or there == backlog.pair.source.scan_all(backlog.table, raw=True)
    assert not done.code or plan(backlog.source_here, backlog.pair.peer).to_ship, done.output
    backlog.machines.install(keytabs_of(backlog.pair))
    backlog.check_shipped(backlog.run(SinkKind.HFILES, on_local_files(backlog)))


@on_a_peer_cluster
def test_a_worker_that_is_used_again_is_whom_the_next_job_says(backlog: Backlog, kerberos: Kerberos) -> None:
    own = on_local_files(backlog)
    stranger = f"stranger@{EAST}"
    backlog.machines.install([kerberos.keytab(stranger)])
    assert own.login.kerberos
    keytab = str(backlog.machines.keytabs / kerberos.keytab(stranger).name)
    other = replace(own.login, kerberos=replace(own.login.kerberos, principal=stranger, keytab=keytab))
    sources = (own, replace(own, login=other), own)
    args = (backlog.pair.peer, *(source.to_json() for source in sources))
    conf = {**backlog.conf, "spark.cores.max": "1"}
    log = backlog.folder / "in-turn.log"
    with log.open("wb") as out:
        job = submit_script(JOB_IN_TURN, args, out=out, master=backlog.machines.spark.master, conf=conf)
    code = job.wait(JOB_SECONDS)
    assert code == 0, log.read_text()
    first, second, third = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    assert first["pid"] == second["pid"] == third["pid"]
    assert [each["status"] for each in (first, second, third)] == ["done", "failed", "done"]
    assert "does not let it in" in second["error"]
