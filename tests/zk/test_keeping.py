"""How long the master's role is kept: against a real ZooKeeper, with servers that open and close regions as HBase's do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.zk.busy_cluster import busy_cluster, faultless_world
from tests.zk.fixtures import new_client, zk
from tests.zk.region_world import RegionWorld
from tests.zk.role_znodes import become_active
from walferry.base.security.login import Kerberos, Login
from walferry.hbase.names import ServerName
from walferry.master import keeping, role_loop, work
from walferry.master.errors import ClockAhead, NotHBase1, Refused, RoleLost
from walferry.master.keeping import check_keepable, keep_role
from walferry.master.role import OUR_VERSION
from walferry.master.work import WorkTerms
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session

__all__ = ["new_client", "zk"]  # fixtures

BACKUP = ServerName("m2.example.org", 16000, 1_700_000_000_000)
SECONDS = 60


class Keeper:
    """A world of regions, and a run that keeps its master's role in a thread."""

    def __init__(self, world: RegionWorld, root: Path, quorum: str) -> None:
        self.world, self.zk, self.nodes = world, world.zk, world.nodes
        self.source = SourceCluster(
            quorum=quorum, wal_root=f"file://{root}", znode_parent=world.nodes.base, root=world.own.root
        )  # fmt: skip
        self.said: list[str] = []
        self.stop = threading.Event()
        self.zk.ensure_path(self.nodes.running)

    def keep(self, **how: Any) -> Any:
        terms = WorkTerms("the test", None, "localhost", "127.0.0.1", limit_seconds=60.0)
        with open_session(self.source) as session:
            return keep_role(session, terms, self.stop, self.said.append, balance_seconds=None, **how)

    def wait(self, done: Callable[[], Any], what: str) -> None:
        patience = threading.Event()
        for _ in range(SECONDS * 20):
            if done():
                return
            patience.wait(0.05)
        raise AssertionError(f"{what}: {self.said}")

    def begin_backup(self, *, ephemeral: bool = True) -> None:
        self.zk.create(f"{self.nodes.backup_masters}/{BACKUP}", b"", ephemeral=ephemeral, makepath=True)

    @property
    def is_kept(self) -> bool:
        stat = self.zk.exists(self.nodes.master)
        return stat is not None and stat.version == OUR_VERSION

    def is_whole(self) -> bool:
        return all(any(encoded in server.online for server in self.world.live) for encoded in self.world.meta)


@pytest.fixture
def keeper(
    zk: KazooClient, new_client: Callable[[], KazooClient], zookeeper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Keeper:
    world = faultless_world(zk, new_client, 3)
    monkeypatch.setattr(work, "cluster_of", busy_cluster(world, tmp_path))
    monkeypatch.setattr(role_loop, "IDLE_SECONDS", 0.5)
    return Keeper(world, tmp_path, zookeeper.quorum)


def test_the_role_is_kept_until_an_hmaster_waits_for_it(keeper: Keeper) -> None:
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep)
        keeper.wait(keeper.is_whole, "all regions are opened")
        keeper.begin_backup()
        assert kept.result(SECONDS) == [str(BACKUP)]
    assert not keeper.zk.exists(keeper.nodes.master)
    assert keeper.said[-1] == f"HMaster {BACKUP} waits to become active, so this run gives it the master's role"


@pytest.mark.slow
def test_an_hmaster_that_waited_before_gets_it_only_after_a_while(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """It did not take the role while that was free: one that was started with --backup seldom looks whether there is a master."""
    monkeypatch.setattr(keeping, "BACKUP_SECONDS", 12.0)
    keeper.begin_backup()
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep)
        keeper.wait(keeper.is_whole, "all regions are opened meanwhile")
        assert not kept.done()
        assert kept.result(SECONDS) == [str(BACKUP)]


def test_what_is_left_of_an_hmaster_gets_nothing(keeper: Keeper) -> None:
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep)
        keeper.wait(keeper.is_whole, "all regions are opened")
        keeper.begin_backup(ephemeral=False)
        threading.Event().wait(3)
        assert not kept.done()
        keeper.stop.set()
        assert list(kept.result(SECONDS)) == []


def test_without_yielding_an_hmaster_waits_until_the_run_is_stopped(keeper: Keeper) -> None:
    keeper.begin_backup()
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep, yields=False)
        keeper.wait(keeper.is_whole, "all regions are opened")
        assert not kept.done()
        keeper.stop.set()
        assert list(kept.result(SECONDS)) == []


def test_a_role_that_somebody_takes_away_is_noticed_in_a_quiet_cluster(keeper: Keeper) -> None:
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep)
        keeper.wait(keeper.is_whole, "all regions are opened")
        keeper.zk.delete(keeper.nodes.master)
        become_active(keeper.zk, keeper.nodes)
        with pytest.raises(RoleLost, match="is gone or is another master's"):
            kept.result(SECONDS)


def test_a_clock_that_jumps_ends_the_run(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times in the future would get into hbase:meta, and hide where an HMaster moves regions later."""
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep)
        keeper.wait(keeper.is_whole, "all regions are opened")
        monkeypatch.setattr(role_loop, "MAX_SKEW_SECONDS", -1.0)
        with pytest.raises(ClockAhead):
            kept.result(SECONDS)


def test_a_cluster_that_was_shut_down_gets_no_master(keeper: Keeper) -> None:
    keeper.zk.delete(keeper.nodes.running)
    assert list(keeper.keep()) == []
    assert not keeper.zk.exists(keeper.nodes.running)
    assert keeper.said == ["The cluster was shut down meanwhile, so it wants no master"]


def test_servers_of_hbase_2_that_come_later_end_the_run(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Session] = []

    def check(session: Session) -> None:
        looks.append(session)
        if len(keeper.world.live) > 2:
            raise NotHBase1("rs", "2.6.4")

    monkeypatch.setattr(keeping, "check_hbase_1", check)
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep)
        keeper.wait(keeper.is_whole, "all regions are opened")
        keeper.world.start_server()
        with pytest.raises(NotHBase1):
            kept.result(SECONDS)
    assert len(looks) == 2  # not at each pass


def test_it_is_said_once_that_no_server_reports(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "REPORT_SECONDS", 0.0)
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep)
        keeper.wait(keeper.is_whole, "all regions are opened")
        keeper.stop.set()
        kept.result(SECONDS)
    assert sum("no RegionServer has reported to localhost:" in line for line in keeper.said) == 1


def test_passes_that_all_fail_end_the_run(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(keeper.keep)
        keeper.wait(keeper.is_whole, "all regions are opened")
        monkeypatch.setattr(role_loop, "FAILING_SECONDS", 1.0)

        def fail(*_: Any, **__: Any) -> Any:
            raise Refused("no look") from None

        monkeypatch.setattr(Refused, "retry_helps", True)
        monkeypatch.setattr(role_loop.Master, "one_pass", fail)
        with pytest.raises(Refused, match="no look"):
            kept.result(SECONDS)
    assert any("this pass failed: no look" in line for line in keeper.said)


def test_a_cluster_with_kerberos_is_refused(keeper: Keeper) -> None:
    with open_session(keeper.source) as session:
        check_keepable(session)
        login = Login(kerberos=Kerberos(principal="a@B", keytab="/nowhere"))
        object.__setattr__(session, "source", SourceCluster(quorum="zk", wal_root="file:///x", login=login))
        with pytest.raises(Refused, match="RegionServers with Kerberos do not report"):
            check_keepable(session)
