"""A batch warns of a peer cluster whose clock is ten seconds ahead. A library shifts the time of one of two real clusters."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.client import GLOBAL, JavaClient
from embedded.processes import free_port
from embedded.standalone import StandaloneCluster

from .conftest import Run

AHEAD_SECONDS = 10
SHIFTED = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *at) {{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    if (!failed && clock == CLOCK_REALTIME) at->tv_sec += {AHEAD_SECONDS};
    return failed;
}}

int gettimeofday(struct timeval *at, void *zone) {{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}}
"""


@pytest.fixture(scope="module")
def clusters(cluster_folder: Path) -> Iterator[tuple[StandaloneCluster, StandaloneCluster]]:
    """The source, and a peer cluster that is ahead."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler, which the library that shifts a cluster's time needs")
    library = cluster_folder / "shifted.so"
    cluster_folder.mkdir(parents=True, exist_ok=True)
    (cluster_folder / "shifted.c").write_text(SHIFTED)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, cluster_folder / "shifted.c", "-ldl"], check=True)

    def cluster(name: str, **environment: str) -> StandaloneCluster:
        pages = {"hbase.regionserver.info.port": str(free_port()), "hbase.regionserver.info.bindAddress": "127.0.0.1"}
        return StandaloneCluster(cluster_folder / name, pages, name=name, environment=environment)

    with cluster("punctual") as source, cluster("ahead", LD_PRELOAD=str(library)) as ahead:
        yield source, ahead


def test_a_batch_warns_of_a_peer_cluster_that_is_ten_seconds_ahead(
    clusters: tuple[StandaloneCluster, StandaloneCluster], replicate_peer: Callable[..., Run], managed_peer: Callable[..., str],
    java_client: Callable[..., JavaClient], unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch,
    logged: Callable[[], str],
) -> None:  # fmt: skip
    source, ahead = (each.address for each in clusters)
    extra = f'{{"wal_root": "{source.wal_root}", "znode_parent": "{source.znode_parent}"}}'
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", f'{{"conn_type": "generic", "host": "{source.quorum}", "extra": {extra}}}')
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    peer, table = managed_peer(source, ahead), unique("t")
    for address in (source, ahead):
        java_client(address).create_table(table, {"f": GLOBAL})
    java_client(source).put_many(table, 10, ["f:q"])
    ended = replicate_peer(peer=peer, deadline=120)
    assert ended.state == "success", (ended.tasks, ended.reports)
    (warning,) = ended.reports[peer]["warnings"]
    assert warning.startswith("The clocks of source and peer cluster are ")
    apart = int(warning.partition("are ")[2].partition(" ms apart")[0].replace(",", ""))
    assert 1000 * (AHEAD_SECONDS - 3) < apart <= 1000 * AHEAD_SECONDS
    assert "The clocks of source and peer cluster are " in logged()
