"""Jobs on a YARN and an HDFS that demand Kerberos: YARN's delegation tokens are there, and Walferry's own keytab is used, also
after an executor was killed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.client import GLOBAL, even_splits
from embedded.hdfs import Hdfs, HdfsSecurity
from embedded.kerberos import Kerberos
from embedded.processes import SMALL_JVM
from embedded.secured import HBASE
from embedded.secured_site import EAST, USER
from embedded.yarn import Yarn, kill
from tests.cluster.walferry_runs import plan, roll
from tests.secured.peers import Pair
from tests.secured.test_spark_cluster import copy_wals
from tests.yarn.conftest import MODES, TEST_SECONDS, WAIT_SECONDS, OnYarn, on_yarn
from walferry.hbase.files import clients, logins
from walferry.hbase.files.clients import system_and_path
from walferry.replication.peers.settings import SinkKind
from walferry.shipping.ship_run import ShipRun

__all__ = ["on_yarn"]  # fixtures

SUBMITTER = f"stranger@{EAST}"  # whose delegation tokens all containers have
STAGING = "/staging"
ROWS, WALS = 300, 2


@pytest.fixture(scope="module")
def yarn(kerberos: Kerberos, cluster_folder: Path) -> Iterator[Yarn]:
    hdfs = Hdfs(cluster_folder / "yarn-hdfs", security=HdfsSecurity(kerberos, f"{HBASE}@{EAST}"))
    try:
        hdfs.start()
        with Yarn(cluster_folder / "yarn", hdfs) as yarn:
            yield yarn
    finally:
        hdfs.kill()


def only_ours(root: str) -> None:
    """Let only Walferry's own principal read the files of a folder. All users may have applications."""
    system, path = system_and_path(root)
    for folder, _, files in system.walk(path):
        for each in (folder, *(f"{folder}/{name}" for name in files)):
            system.client.set_owner(each, USER, USER)
            system.client.set_permission(each, 0o700)
    system.client.mkdirs(STAGING, 0o777, True)
    system.client.set_permission(STAGING, 0o777)


@pytest.mark.timeout(TEST_SECONDS)
@MODES
@pytest.mark.parametrize("peer_site", ["privacy-tls"], indirect=True)
def test_a_keytab_of_ours_is_used_and_not_the_delegation_tokens_that_containers_have(
    pair: Pair, yarn: Yarn, on_yarn: OnYarn, kerberos: Kerberos, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "_logins", {})
    monkeypatch.setattr(clients, "_file_systems", {})
    table, here = unique("t"), pair.at(SinkKind.DIRECT)
    for client in (pair.source, pair.peer_cluster):
        client.create_table(table, {"f": GLOBAL}, even_splits(2))
    for wal in range(WALS):
        pair.source.put_many(table, ROWS, ["f:a"], first=wal * ROWS)
        roll(here, pair.peer)
    root = f"{yarn.hdfs.url}/{table}"
    copy_wals(here, root, kerberos)
    only_ours(root)
    java = " ".join([*SMALL_JVM, *kerberos.jvm_options])
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", java)
    conf = {
        **{f"spark.{which}.extraJavaOptions": java for which in ("driver", "executor", "yarn.am")},
        "spark.yarn.stagingDir": f"{yarn.hdfs.url}{STAGING}",
        "spark.kerberos.principal": SUBMITTER,
        "spark.kerberos.keytab": str(kerberos.keytab(SUBMITTER)),
    }
    earlier = len(yarn.hdfs.processes[0].log_text())
    job = ShipRun(source=replace(here, wal_root=root), peer_id=pair.peer, run_id="run", deadline=WAIT_SECONDS)
    running = on_yarn.start(on_yarn.operator(**conf), job)
    kill(running.container(master=False))  # while its new Python worker still imports the library
    running.finish()
    logs = on_yarn.yarn.container_logs(running.application).values()
    assert sum(log.count("Running task") - log.count("Finished task") for log in logs) > 0, "a task was killed"
    assert pair.peer_cluster.scan_all(table, raw=True) == pair.source.scan_all(table, raw=True)
    assert not plan(here, pair.peer).to_ship
    namenode = yarn.hdfs.processes[0].log_text()[earlier:]
    assert re.search(r"Auth successful for stranger\S* \(auth:TOKEN\)", namenode), "containers have tokens"
    assert f"Auth successful for {USER}@{EAST} (auth:KERBEROS)" in namenode
