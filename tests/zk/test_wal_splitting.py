"""A dead server's WALs are split through tasks, whichever worker dies or gives up, and wherever the master is killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from kazoo.client import KazooClient

from tests.zk.claim_cluster import Killed
from tests.zk.hbase_znodes import HBaseZNodes, prefixed
from tests.zk.stepped import Stepped
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.layout import OwnZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.values import PBUF
from walferry.master import wal_splitting
from walferry.master.errors import SplitFailed
from walferry.master.role import take_role
from walferry.master.wal_splitting import (
    HEARTBEAT_SECONDS,
    MAX_RESUBMITS,
    SplitProgress,
    TaskState,
    WalSplitting,
    read_tasks,
    servers_with_wals,
)

DEAD = ServerName("rs-9.example.org", 16020, 1_700_000_000_009)
WORKER = ServerName("rs-1.example.org", 16020, 1_700_000_000_001)  # hbase_znodes.SERVER, which is alive
GONE = ServerName("rs-8.example.org", 16020, 1_700_000_000_008)
ME = ServerName("walferry.example.org", 16000, 1)
WALS = [f"{DEAD.encoded()}.17000000001{n:02}" for n in range(3)]
META = f"{DEAD.encoded()}.1700000000900.meta"


class Case:
    """A WAL root with a dead server's WALs, the master that has them split, and one worker."""

    def __init__(self, hbase: HBaseZNodes, root: Path, new_client: Callable[[], KazooClient]) -> None:
        self.hbase, self.root, self.new_client = hbase, root, new_client
        (root / "WALs" / str(DEAD)).mkdir(parents=True)
        (root / "WALs" / str(WORKER)).mkdir()
        (root / "oldWALs").mkdir()
        for name in [*WALS, META]:
            (root / "WALs" / str(DEAD) / name).write_bytes(name.encode())
            os.utime(root / "WALs" / str(DEAD) / name, (1, 1))
        self.now = 0.0
        self.splitting: WalSplitting

    def monotonic(self) -> float:
        return self.now

    def new_master(self, zk: KazooClient) -> WalSplitting:
        own = OwnZNodes(self.hbase.root, self.hbase.nodes)
        self.lock = take_role(zk, self.hbase.nodes, own, "test", run="the same")
        return WalSplitting(zk, self.hbase.nodes, f"file:{self.root}", self.lock, ME)

    def advance(self) -> SplitProgress:
        (progress,) = self.splitting.advance([DEAD])
        return progress

    def tasks(self) -> dict[str, TaskState]:
        tasks, broken = read_tasks(self.hbase.zk, self.hbase.nodes)
        assert not broken
        return {wal.rpartition("/")[2]: task.state for wal, task in tasks.items()}

    def work(self, name: str, state: TaskState, worker: ServerName = WORKER) -> None:
        """Write a task as a worker does."""
        server = pb.ServerName(host_name=worker.host, port=worker.port, start_code=worker.start_code)
        value = PBUF + pb.SplitLogTask(state=state.name, server_name=server).SerializeToString()
        encoded = quote_plus(f"WALs/{DEAD}-splitting/{name}")
        self.hbase.zk.set(f"{self.hbase.nodes.split_tasks}/{encoded}", prefixed(value))

    def work_all(self) -> None:
        for name in self.tasks():
            self.work(name, TaskState.DONE)

    def files(self, folder: str) -> set[str]:
        path = self.root / folder
        return {each.name for each in path.iterdir()} if path.exists() else set()

    def is_over(self) -> bool:
        over = self.files("oldWALs") == {*WALS, META} and self.files("WALs") == {str(WORKER)} and not self.tasks()
        return over and DEAD not in servers_with_wals(f"file:{self.root}")


@pytest.fixture
def case(hbase: HBaseZNodes, tmp_path: Path, new_client: Callable[[], KazooClient], monkeypatch: pytest.MonkeyPatch) -> Case:
    made = Case(hbase, tmp_path, new_client)
    monkeypatch.setattr(wal_splitting, "time", made)
    made.splitting = made.new_master(hbase.zk)
    return made


def test_the_server_is_fenced_and_the_wals_of_hbase_meta_come_first(case: Case) -> None:
    assert servers_with_wals(f"file:{case.root}") == {DEAD, WORKER}
    assert case.advance().left == 4
    assert case.files("WALs") == {f"{DEAD}-splitting", str(WORKER)}
    assert case.tasks() == {META: TaskState.UNASSIGNED}
    assert DEAD in servers_with_wals(f"file:{case.root}")
    case.work_all()
    case.advance()
    assert case.advance().left == 3
    assert case.tasks() == dict.fromkeys(WALS, TaskState.UNASSIGNED)
    case.work_all()
    assert case.advance() == SplitProgress(DEAD, 0)
    assert case.is_over()
    assert (case.root / "oldWALs" / META).stat().st_mtime > 1_000_000


def test_a_file_with_a_server_s_name_is_not_taken_for_a_dead_server(case: Case) -> None:
    (case.root / "WALs" / str(GONE)).touch()
    (case.root / "WALs" / f"{ME}-splitting").touch()
    assert servers_with_wals(f"file:{case.root}") == {DEAD, WORKER}


def test_a_live_server_is_not_fenced(case: Case) -> None:
    (progress,) = case.splitting.advance([WORKER])
    assert isinstance(progress.error, SplitFailed)
    assert str(WORKER) in case.files("WALs")


def test_a_corrupt_wal_goes_to_the_corrupt_folder(case: Case) -> None:
    case.advance()
    (case.root / "splitWAL" / META).mkdir(parents=True)
    (case.root / "splitWAL" / META / "corrupt").touch()
    case.work_all()
    case.advance()
    assert case.files("corrupt") == {META}
    assert case.files("splitWAL") == set()


@pytest.mark.parametrize(("state", "worker"), [(TaskState.RESIGNED, WORKER), (TaskState.OWNED, GONE)])
def test_a_task_whose_worker_gives_up_or_dies_goes_to_another_one_however_often(
    case: Case, state: TaskState, worker: ServerName
) -> None:
    case.advance()
    for _ in range(MAX_RESUBMITS + 2):
        case.work(META, state, worker)
        assert case.advance().error is None
        assert case.tasks() == {META: TaskState.UNASSIGNED}


def test_a_worker_that_is_silent_for_too_long_loses_its_task_a_few_times_at_most(case: Case) -> None:
    case.advance()
    for i in range(MAX_RESUBMITS + 2):
        case.work(META, TaskState.OWNED)
        case.advance()
        case.now += HEARTBEAT_SECONDS / 2
        case.advance()
        assert case.tasks() == {META: TaskState.OWNED}
        case.now += HEARTBEAT_SECONDS
        case.advance()
        assert case.tasks() == {META: TaskState.UNASSIGNED if i < MAX_RESUBMITS else TaskState.OWNED}


def test_a_wal_that_cannot_be_split_is_reported_and_tried_again_later(case: Case) -> None:
    case.advance()
    for _ in range(MAX_RESUBMITS):
        case.work(META, TaskState.ERR)
        assert case.advance().error is None
    case.work(META, TaskState.ERR)
    progress = case.advance()
    assert isinstance(progress.error, SplitFailed)
    assert META in str(progress.error)
    assert progress.left == 4
    case.advance()
    assert case.tasks() == {META: TaskState.UNASSIGNED}


def test_a_folder_that_came_back_is_fenced_too(case: Case) -> None:
    case.advance()
    folder = case.root / "WALs" / str(DEAD)
    folder.mkdir()
    (folder / "later.1700000000999").touch()
    case.advance()
    assert case.files("WALs") == {f"{DEAD}-splitting", str(WORKER)}
    assert "later.1700000000999" in case.files(f"WALs/{DEAD}-splitting")


@pytest.mark.timeout(300)
def test_a_master_killed_before_any_write_leaves_work_for_the_next_one(case: Case) -> None:
    """The master is killed one ZooKeeper write later each time, and another master goes on. The end is always the same."""
    masters = 0
    while not case.is_over():
        zk = case.new_client()
        case.splitting = case.new_master(zk)
        stepped = Stepped(zk, lambda _: case.advance())
        for _ in range(masters % 4):
            stepped.step()
        stepped.kill()
        assert stepped.error is None or isinstance(stepped.error, Killed) or "Killed" in repr(stepped.error)
        case.hbase.zk.sync("/")
        case.work_all()
        masters += 1
        assert masters < 40
