"""Secured jobs on a standalone Spark cluster, whose executors are JVMs of their own, on machines of their own.

A worker's machine is played by its folder: keytabs are named by a path that is a link into the `etc` of whichever machine the
process runs on. Its environment is not that of the tests: it knows no realm, and has other variables of Kerberos.
"""

from __future__ import annotations

import json
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
from embedded.processes import free_port
from embedded.secured import HBASE
from embedded.secured_site import EAST
from embedded.spark import submit_job
from embedded.spark_cluster import Host, SparkCluster
from embedded.wire import put
from tests.cluster.spark_runs import Finished, Job
from tests.cluster.walferry_runs import plan, roll
from tests.secret_search import files_under, keys_of, leaked
from tests.secured.peers import CONN_ID, Pair
from walferry.files import clients, logins
from walferry.files.systems import write_file
from walferry.security.login import Kerberos as Identity
from walferry.security.login import Login
from walferry.source.cluster import SourceCluster, for_slave
from walferry.source.knobs import SinkKind
from walferry.spark.environment import kerberos_settings

ROWS, WALS = 300, 4
JOB_SECONDS = 120
ODD = {
    "KRB5_CONFIG": None, "KRB5CCNAME": "ODD:cache", "KRB5_CLIENT_KTNAME": "FILE:/no/such.keytab", "KRB5_KTNAME": "FILE:/no/such",
    "HOME": "/no/such/home", "XDG_CACHE_HOME": None, "USER": "nobody", "LOGNAME": "nobody",
    "WALFERRY_CACHE": str(cache_home()),
}  # fmt: skip
HOSTS = (Host(ODD, umask=0o077), Host(ODD, umask=0o777 & ~0o700))
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": str(len(HOSTS)),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # no task begins before all executors are there
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
    """The source's, as far as its WALs go."""
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

    def job(self, sink: SinkKind, source: SourceCluster | None = None, **conf: str) -> Job:
        """Start a job as Walferry's operator does; it has no other settings but those of a spark-defaults.conf."""
        import os

        settings = {**kerberos_settings(os.environ), **CONF, **conf}
        args = ("--broken-wals=stop", f"--sink={sink}")
        return Job(
            source or self.source, self.pair.peer, f"run-{time.monotonic_ns()}", self.folder, args=args,
            master=self.machines.spark.master, conf=settings,
        )  # fmt: skip

    def run(self, sink: SinkKind, source: SourceCluster | None = None) -> Finished:
        with self.job(sink, source) as job:
            return job.finish(JOB_SECONDS)

    def check_shipped(self, done: Finished) -> None:
        assert done.code == 0, done.output
        assert self.pair.slave.scan_all(self.table, raw=True) == self.pair.source.scan_all(self.table, raw=True)
        assert not plan(self.source_here, self.pair.peer).to_ship

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
    pair.slave.create_table(table, {"f": GLOBAL}, even_splits(4))
    for wal in range(WALS):
        pair.source.write(table, [put(f"row{n % 10}-{wal}-{n}", {"f:a": b"v" * 1000}) for n in range(ROWS)])
        roll(here, pair.peer)
    root = f"{hdfs.url}/{table}"
    hbase = f"{HBASE}@{EAST}"
    logins.log_in(root, Identity(principal=hbase, keytab=str(kerberos.keytab(hbase))))
    local = Path(here.wal_root.removeprefix("file://"))
    for wal in [path for name in ("WALs", "oldWALs") for path in (local / name).rglob("*") if path.is_file()]:
        write_file(f"{root}/{wal.relative_to(local)}", wal.read_bytes())
    machines.install([Path(site.fields()["keytab"]) for site in (pair.source_site, pair.slave_site)])
    return Backlog(pair, machines, there(here, pair, machines, root), table, tmp_path)


def there(here: SourceCluster, pair: Pair, machines: Machines, root: str) -> SourceCluster:
    """The source with its WALs on HDFS, and with keytabs by the path that all machines have."""

    def moved(login: Login) -> Login:
        assert login.kerberos
        assert login.kerberos.keytab
        keytab = machines.keytabs / Path(login.kerberos.keytab).name
        return replace(login, kerberos=replace(login.kerberos, keytab=str(keytab)))

    slave = for_slave(CONN_ID, pair.key)
    return replace(here, wal_root=root, login=moved(here.login), slaves={slave: moved(here.slaves[slave])})


WEST_KEYTAB, EAST_KEYTAB = "walferry@WEST.EXAMPLE.keytab", "walferry@EAST.EXAMPLE.keytab"
on_a_slave = pytest.mark.parametrize("slave_site", ["privacy-tls"], indirect=True)


@on_a_slave
def test_executors_that_know_no_realm_ship(backlog: Backlog) -> None:
    done = backlog.run(SinkKind.DIRECT)
    print(done.output)
    backlog.check_shipped(done)


@on_a_slave
@pytest.mark.parametrize("sink", [SinkKind.DIRECT, SinkKind.HFILES])
@pytest.mark.parametrize("keytab", [EAST_KEYTAB, WEST_KEYTAB])
@pytest.mark.parametrize("hosts", [1, 2])
def test_missing(backlog: Backlog, keytab: str, sink: SinkKind, hosts: int) -> None:
    for machine in backlog.machines.workers[:hosts]:
        (machine / "etc" / keytab).unlink()
    began = time.monotonic()
    done = backlog.run(sink)
    print(time.monotonic() - began, done.code, done.output)
    for e in backlog.machines.spark.executors:
        print(e.number, e.log[-3000:])
