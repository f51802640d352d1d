"""Real clusters for tests: each starts once a session, at the first test that asks for it."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from pytest_rerunfailures import suspended_finalizers
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from embedded.client import ClientJvm, JavaClient
from embedded.distributed import ClusterOptions, DistributedCluster, DistributedClusters
from embedded.hbase import ClusterAddress
from embedded.java import JavaMissingError
from embedded.shared_classes import spark_environment
from embedded.standalone import StandaloneCluster
from embedded.zookeeper import ZooKeeperServer
from tests.running.awake import Waker
from tests.running.crashes import scheduler
from tests.running.durations import DurationsRecorder, file_of, renews
from tests.running.memory import clusters_should_end
from tests.running.order import in_order
from tests.running.quick import group_of, is_quick
from tests.running.second_tries import SecondTries, needed_before
from tests.running.shards import of_shard, shard_of_run
from tests.running.stalls import StallWatch
from tests.running.time_limit import HAVE_TO_RUN, TimeLimit, have_to_run, skip_if_over

GIGABYTES_A_PROCESS = 8  # its clusters, its Spark jobs and Airflow need at most this


def pytest_xdist_auto_num_workers() -> int:
    """What `--numprocesses auto` means: a process a core, if they have memory for their clusters; at least 2, at most 4.

    Most tests wait for servers, so two processes take little more than half the time even on one core.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return max(2, min(4, len(os.sched_getaffinity(0)), memory // GIGABYTES_A_PROCESS))


@pytest.fixture(scope="session", autouse=True)
def quick_spark_jobs() -> Iterator[None]:
    """Lets the JVMs of Spark jobs start in half the time, as far as this machine has Java."""
    try:
        variables = spark_environment()
    except JavaMissingError:  # then only tests without Java can run
        variables = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper server. Each test has its own znodes there."""
    with ZooKeeperServer(Path(tmp_path_factory.mktemp("zookeeper"))) as server:
        yield server


class StandalonePair(NamedTuple):
    source: StandaloneCluster
    peer_cluster: StandaloneCluster


class DistributedPair(NamedTuple):
    source: DistributedCluster
    peer_cluster: DistributedCluster


@pytest.fixture(scope="session")
def cluster_folder() -> Iterator[Path]:
    """The folder for data and logs of all clusters of this session. It is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="walferry-test-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def java_client(cluster_folder: Path) -> Iterator[Callable[[ClusterAddress], JavaClient]]:
    """`java_client(cluster.address)`: HBase's own Java client of that cluster."""
    with ClientJvm(cluster_folder / "client") as jvm:
        yield jvm.client


@contextlib.contextmanager
def side_by_side(clusters: Sequence[StandaloneCluster]) -> Iterator[None]:
    """Runs clusters that start at the same time, for the length of a block."""
    try:
        for cluster in clusters:
            cluster.launch()
        for cluster in clusters:
            cluster.await_ready()
        yield
    finally:
        for cluster in clusters:
            cluster.kill()


@pytest.fixture(scope="session")
def standalone_pair(cluster_folder: Path) -> Iterator[StandalonePair]:
    """Two clusters of one JVM each, side by side. A test that stops one starts it again."""
    # HBase keeps metrics of deleted tables and peers: hundreds of tests filled 512 MB.
    pair = StandalonePair(
        StandaloneCluster(cluster_folder / "source", name="source", heap="768m"),
        StandaloneCluster(cluster_folder / "peer_cluster", name="peer_cluster", heap="768m"),
    )
    with side_by_side(pair):
        yield pair


@pytest.fixture(autouse=True)
def servers_live_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test during which a server of the standalone pair aborts. The tests after it get the cluster as it comes back."""
    if "standalone_pair" not in request.fixturenames:
        yield
        return
    pair: StandalonePair = request.getfixturevalue("standalone_pair")
    for cluster in pair:
        if cluster.process.abort():
            cluster.kill()
            cluster.start()
    yield
    assert not (reason := aborts(pair)), f"a server aborts: {reason}"


def aborts(pair: StandalonePair) -> list[str]:
    return [f"{cluster.name}: {why}" for cluster in pair if (why := cluster.process.abort())]


@pytest.fixture(scope="session")
def distributed_pair(cluster_folder: Path) -> Iterator[DistributedPair]:
    """Two clusters of two RegionServers each on one HDFS. A test that kills RegionServers starts others in their place."""
    # A RegionServer waits once or twice this long before it claims a dead one's queues; HBase's own default is 30 s.
    source = ClusterOptions({"replication.sleep.before.failover": "2000"})
    clusters = DistributedClusters(cluster_folder / "distributed", {"source": source, "peer_cluster": ClusterOptions()})
    with clusters:
        yield DistributedPair(clusters["source"], clusters["peer_cluster"])


@pytest.fixture
def unique() -> Callable[[str], str]:
    """`unique("orders")` → a name for a table or peer that no other test uses: letters and digits only."""
    return lambda prefix: f"{prefix}{secrets.token_hex(4)}"


@pytest.fixture
def managed_peer(
    java_client: Callable[[ClusterAddress], JavaClient], unique: Callable[[str], str]
) -> Iterator[Callable[[ClusterAddress, ClusterAddress], str]]:
    """`managed_peer(source.address, peer_cluster.address)` → id of a new peer as Walferry wants it, which is removed after the
    test.

    Its queue contains no earlier writes: tests share clusters, and the peer cluster may lack the tables of other tests.
    """
    added: list[tuple[JavaClient, str]] = []

    def add(source: ClusterAddress, peer_cluster: ClusterAddress) -> str:
        client, peer_id = java_client(source), unique("peer")
        client.roll_wals()
        client.add_managed_peer(peer_id, peer_cluster.cluster_key)
        added.append((client, peer_id))
        return peer_id

    yield add
    for client, peer_id in added:
        if any(peer.id == peer_id for peer in client.list_peers()):
            client.remove_peer(peer_id)


stall_watch = StallWatch()


@pytest.hookimpl(trylast=True)  # after pytest-rerunfailures'
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # in a process of pytest-xdist, which sees only some of the tests
        # pytest-rerunfailures sends two messages before each test and awaits an answer to the second one. Nagle's algorithm
        # holds that one back until the first is acknowledged: 40 ms a test.
        config.failures_db.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # type: ignore[attr-defined]
    else:
        config.pluginmanager.register(TimeLimit())
        config.pluginmanager.register(SecondTries())
        if renews():
            config.pluginmanager.register(DurationsRecorder())
        waker = Waker()
        waker.start()
        config.add_cleanup(waker.stop)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Lets a run go on after one of its processes has died."""
    return scheduler(config, log)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names bytes by their argument: they may be random, and each process of pytest-xdist has to find the same tests."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Marks the tests, lets pytest choose those that `-m` names, and takes of them this run's shard in this run's order.

    A test that fails while the machine gets no processor runs again, at most twice, and in CI any test. pytest counts each as a
    rerun, and names it at the end: a test that needed it outside of a stall has a race to be mended. So one that needed it in an
    earlier run of CI does not get it.
    """
    again, before = bool(os.environ.get("CI")), needed_before()
    for item in items:
        if is_quick(item):
            item.add_marker("quick")
        item.add_marker(pytest.mark.xdist_group(group_of(item)))  # for --dist loadgroup
        may = again and item.nodeid not in before
        item.add_marker(pytest.mark.flaky(reruns=2, condition=may or stall_watch.saw_a_stall))
    yield
    shard = shard_of_run()
    mine = of_shard(items, shard) if shard else items
    if left_out := list(set(items) - set(mine)):
        config.hook.pytest_deselected(items=left_out)
    items[:] = in_order(mine)
    config.stash[HAVE_TO_RUN] = have_to_run({file_of(item.nodeid) for item in mine})


def pytest_collection_finish() -> None:
    """Spares Python's garbage collector the thousands of tests and the modules that they import, which live to the end.

    It still looks as often as by default: a few cycles, of errors and their tracebacks, may hold gigabytes of buffers.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    stall_watch.reset()
    skip_if_over(item)
    if getattr(item, "execution_count", 1) > 1 or clusters_should_end(item):  # the count is set by pytest-rerunfailures
        end_all_fixtures(item.session)


def end_all_fixtures(session: pytest.Session) -> None:
    """Ends the fixtures of every scope, so that the next test gets new clusters, without what is left in the old ones."""
    session._setupstate.stack.update(suspended_finalizers)  # pytest-rerunfailures keeps them for the end of the last run
    suspended_finalizers.clear()
    with contextlib.suppress(Exception):  # errors of a fixture that ends a failed cluster
        session._setupstate.teardown_exact(None)
