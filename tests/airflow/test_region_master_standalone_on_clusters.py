"""Servers and masters of a real HBase 1.7.2 are killed; `airflow standalone`, with every DAG unpaused, keeps its regions open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from demo.airflow_standalone import Airflow
from embedded.client import JavaClient
from embedded.hbase import ClusterAddress
from tests.airflow_standalone import running
from tests.cluster.classic_failover import tried_again
from tests.cluster.region_site import Site, region_site
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import read
from walferry.hbase.names import ServerName
from walferry.hbase.values import decode_message, server_in
from walferry.master.role import OUR_VERSION

from . import znodes_cluster

KEEPS = "region_master"
WAIT_SECONDS = 300
until = partial(znodes_cluster.until, seconds=WAIT_SECONDS)

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def site(tmp_path: Path, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    """Three RegionServers with rows that are not flushed, and an HMaster."""
    with region_site(tmp_path / "cluster", java_client, servers=3) as found:
        found.cluster.start_master()
        yield found


@pytest.fixture
def airflow(site: Site, tmp_path: Path) -> Iterator[Airflow]:
    at = site.cluster.address
    extra = {"znode_parent": at.znode_parent, "wal_root": at.wal_root}
    environment = {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps({"conn_type": "generic", "host": at.quorum, "extra": extra}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "AIRFLOW__WALFERRY__REGION_MASTERS": "hbase_source",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    }
    with running(Airflow(tmp_path / "airflow", environment), KEEPS) as airflow:
        yield airflow


def master_of(site: Site) -> ServerName | None:
    """Return the active master, if it is a run of ours."""
    found = read(site.zk, site.nodes.master)
    if found is None or found.stat.version != OUR_VERSION:
        return None
    return server_in(decode_message(pb.Master, found.value, site.nodes.master).master, site.nodes.master)


def keeper(airflow: Airflow, port: int) -> psutil.Process:
    """Return the process of the task that listens at this port."""
    for process in psutil.Process(airflow.pid).children(recursive=True):
        with suppress(psutil.Error):
            if any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in process.net_connections("tcp")):
                return process
    raise AssertionError(f"no process of Airflow listens at {port}")


def state(airflow: Airflow) -> str:
    """The state of the task of the only run."""
    (run,) = airflow.runs(KEEPS)
    (task,) = airflow.tasks(KEEPS, run["dag_run_id"])
    return str(task["state"])


def whole(site: Site) -> bool:
    with suppress(Exception):  # a server may be dead, and not yet known to be
        return not site.amiss()
    return False


def test_deaths_of_servers_masters_and_tasks_mend_themselves(airflow: Airflow, site: Site) -> None:
    until(lambda: airflow.runs(KEEPS) and state(airflow) == "deferred", "the run waits while an HMaster is active")
    assert master_of(site) is None

    site.cluster.kill_master()
    until(lambda: master_of(site), "the run has the role")
    site.kill(site.meta_at())
    until(lambda: len(site.live) == 2 and whole(site), "all regions are open again")
    assert tried_again(lambda: site.client.scan_all("t")) == site.cells

    before = master_of(site)
    assert before is not None
    process = keeper(airflow, before.port)
    print(f"at work: {sum(process.cpu_times()[:2]):.1f} CPU-seconds since its start, {process.memory_info().rss >> 20} MB")
    process.kill()
    (victim, *_) = sorted(site.live - {site.meta_at()})
    site.kill(victim)
    until(lambda: master_of(site) not in (None, before), "another try has the role")
    until(lambda: len(site.live) == 1 and whole(site), "all regions are open again")
    assert tried_again(lambda: site.client.scan_all("t")) == site.cells

    site.cluster.launch_master()
    until(lambda: state(airflow) == "deferred", "the run has given the role to the HMaster")
    site.cluster.await_ready()
    report = site.cluster.hbck()
    assert report.inconsistencies == 0, report.text
    assert tried_again(lambda: site.client.scan_all("t")) == site.cells
