"""Batches through a Spark Connect server that stays up: same cells and summaries, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from embedded.client import GLOBAL, even_splits
from embedded.spark_connect import ConnectServer
from tests.cluster.conftest import Sides
from tests.cluster.walferry_runs import BY_REPLICATE, is_untouched, leases, positions, roll
from tests.sessions import session_of
from walferry.base.jobs import Job, JobOutcome
from walferry.base.zk.client import connected
from walferry.engine.summary import GroupSummary, Status
from walferry.initial_snapshot.job import CopyRun
from walferry.jobs.archive import build_archive
from walferry.jobs.connect import connect_job
from walferry.jobs.connect.connect_job import ConnectJob
from walferry.jobs.connect.errors import ConnectFailed, Interrupted
from walferry.load.records import Load, loads_of
from walferry.replay.replay_run import ReplayRun
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.shipping.bulkload import load_spread
from walferry.shipping.bulkload.load_note import LoadNote, read_load_note
from walferry.shipping.runs import read_run
from walferry.shipping.ship_run import ShipRun
from walferry.verification.verify_run import VerifyRun

TASKS = 2
MAX_GROWTH = 1.2  # of the server's memory, after its first hundred batches


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect"), tasks=TASKS) as started:
        yield started


@dataclass(frozen=True)
class ConnectShip:
    """A shipping job through the server."""

    job: ConnectJob

    def ship(self) -> list[GroupSummary]:
        logger = logging.getLogger("walferry.test")
        outcome = self.job.run_job(logger.info)
        return [GroupSummary.from_json(json.dumps(each)) for each in json.loads(outcome.result)]

    def interrupt(self) -> None:
        self.job.interrupt()


@pytest.fixture
def connect(server: ConnectServer, sides: Sides, peer: str, tmp_path: Path):
    """`connect("run")`: a run of the peer through the server, which has not begun."""
    archive = build_archive(tmp_path)

    def ship(run_id: str, peer_id: str = peer, at: SourceCluster = sides.at) -> ConnectShip:
        run = ShipRun(source=at, peer_id=peer_id, run_id=run_id, deadline=120)
        return ConnectShip(ConnectJob(server.address, archive, tmp_path / "memory", run))

    return ship


def kept(sides: Sides, peer: str, run_id: str) -> list[GroupSummary]:
    with connected(sides.at.quorum) as zk:
        return read_run(session_of(zk, sides.at), peer, run_id)


def processes(server: ConnectServer) -> Counter[str]:
    """Return the server's processes by kind: the JVM, Python daemons, and their workers. Ended processes do not count."""
    kinds: Counter[str] = Counter()
    for process in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if "connect_daemon" in words:
                parent = process.parent()
                kinds["worker" if parent and "connect_daemon" in parent.cmdline() else "daemon"] += 1
            elif "java" in words[0]:
                kinds["java"] += 1
    return kinds


def test_a_batch_arrives_with_the_same_summaries_and_an_idle_one_has_none(connect, sides, both, peer):
    table = both()
    sides.source.put_many(table, 2000, ["f:a", "l:b"], batch=100)
    roll(sides.at, peer)
    summaries = connect("run 1/é").ship()
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    assert sides.peer_cluster.scan_all(table, ["l"]) == []
    (summary,) = summaries
    assert (summary.status, summary.shippedCells, summary.cellsFiltered) == (Status.DONE, 2000, 2000)
    assert kept(sides, peer, "run 1/é") == summaries
    assert connect("run 2").ship() == []
    assert kept(sides, peer, "run 2") == []


@BY_REPLICATE
def test_a_job_that_is_ended_gives_its_queue_up_and_the_next_try_goes_on(connect, sides, both, proxied, proxied_peer):
    table = both()
    sides.source.put_many(table, 20, ["f:a"])
    roll(sides.at, proxied_peer)
    proxied.sink.cut()
    waiting = connect("run", proxied_peer)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(waiting.ship)
        wait_for(lambda: any(s.status is Status.RUNNING for s in kept(sides, proxied_peer, "run")))
        waiting.interrupt()
        with pytest.raises(Interrupted):
            ended.result(60)
    wait_for(lambda: not leases(sides.at, proxied_peer))  # otherwise it could still ship once the peer cluster is back
    proxied.sink.mend()
    (again,) = connect("run", proxied_peer).ship()
    assert (again.status, again.shippedOps) == (Status.DONE, 20)
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same


@pytest.fixture
def loading(sides: Sides) -> SourceCluster:
    """Return the source with settings that have peers' files loaded."""
    return replace(sides.at, replication={"sink": SinkKind.HFILES})


def test_a_backlog_is_loaded_and_how_far_it_is_is_noted(connect, loading, sides, both, peer, caplog, monkeypatch):
    monkeypatch.setattr(load_spread, "EVERY_SECONDS", 0.0)
    noted, tell = list[str](), LoadNote.tell

    def reported(note: LoadNote, text: str) -> None:
        tell(note, text)
        with open_session(loading) as session:
            noted.append(read_load_note(session, peer, "run"))

    monkeypatch.setattr(LoadNote, "tell", reported)
    caplog.set_level(logging.INFO, "walferry")
    table = both(splits=even_splits(3))
    for number in range(3):
        sides.source.put_many(table, 2000, ["f:a", "l:b"], first=1000 * number, value_bytes=500)
        roll(sides.at, peer)
    assert {(s.status, s.sink, s.notLoaded) for s in connect("run", at=loading).ship()} == {(Status.DONE, "hfiles", None)}
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    assert sides.peer_cluster.scan_all(table, ["l"]) == []
    for said in ("are loaded as files", "cells and"):
        assert said in caplog.text
    assert any("parts of the WALs" in text for text in noted)
    with open_session(loading) as session:
        assert read_load_note(session, peer, "run") == ""


def test_a_load_that_is_ended_in_the_middle_leaves_the_queue_and_the_next_try_loads_it(connect, loading, sides, both, peer):
    table = both()
    sides.source.put_many(table, 2000, ["f:a"])
    roll(sides.at, peer)
    before = positions(sides.at, peer)
    ending = connect("run", at=loading)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(ending.ship)
        wait_for(lambda: loads(sides, peer))
        ending.interrupt()
        with pytest.raises(Interrupted):
            ended.result(60)
    assert is_untouched(before, positions(sides.at, peer))
    (again,) = connect("run", at=loading).ship()
    assert (again.status, again.sink, again.shippedOps) == (Status.DONE, "hfiles", 2000)
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    assert loads(sides, peer) == []


def test_a_job_that_is_too_large_for_the_server_is_left_to_spark_submit(connect, loading, sides, both, peer, monkeypatch):
    monkeypatch.setattr(connect_job, "MOST_SENT_BYTES", 1000)
    sides.source.put_many(both(), 20, ["f:a"])
    roll(sides.at, peer)
    before = positions(sides.at, peer)
    with pytest.raises(ConnectFailed, match="bytes, which are too many for a Spark Connect server"):
        connect("run", at=loading).ship()
    assert is_untouched(before, positions(sides.at, peer))
    assert loads(sides, peer) == []


def loads(sides: Sides, peer: str) -> list[Load]:
    with connected(sides.at.quorum) as zk:
        return loads_of(session_of(zk, sides.at), peer)


def wait_for(done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def through(server: ConnectServer, folder: Path, job: Job) -> JobOutcome:
    return ConnectJob(server.address, build_archive(folder), folder / "memory", job).run_job(
        logging.getLogger("walferry.test").info
    )


def test_an_interval_is_shipped_again_by_the_server(server, sides, both, peer, tmp_path):
    table, start = both(), int(time.time() * 1000)
    for number in range(2):
        sides.source.put_many(table, 500, ["f:a", "l:b"], first=500 * number)
        roll(sides.at, peer)
    end = int(time.time() * 1000) + 1
    job = ReplayRun(
        source=sides.at, peer_id=peer, run_id="again", start=start, end=end, deadline=120, tables=(table,), what_is_there=True
    )
    before = positions(sides.at, peer)
    outcome = through(server, tmp_path, job)
    assert not outcome.failed, outcome.errors
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    assert len(sides.peer_cluster.scan_all(table, ["f"])) == 1000
    assert is_untouched(before, positions(sides.at, peer))


def test_tables_are_compared_by_the_server(server, sides, both, peer, tmp_path):
    table = both(splits=even_splits(3))
    sides.source.put_many(table, 300, ["f:a"])
    sides.peer_cluster.put_many(table, 200, ["f:a"])
    outcome = through(server, tmp_path, VerifyRun(source=sides.at, peer_id=peer, run_id="compare", tables=(table,)))
    (found,) = json.loads(outcome.result)
    assert (found["table"], found["good"] + found["bad"]["CONTENT_DIFFERENT_ROWS"]) == (table, 200), found
    assert found["bad"]["ONLY_IN_SOURCE_TABLE_ROWS"] == 100
    assert not outcome.failed


def test_the_tables_of_a_new_peer_are_copied_by_the_server(server, sides, unique, peer, tmp_path):
    table = unique("t")
    sides.source.create_table(table, {"f": GLOBAL}, even_splits(4))
    sides.source.put_many(table, 1000, ["f:a"])
    outcome = through(server, tmp_path, CopyRun(source=sides.at, peer_id=peer, run_id="copy", tables=(table,)))
    assert not outcome.failed, outcome.errors
    state = json.loads(outcome.result)
    assert (state["complete"], state["regions"]) == (True, 4)
    assert sides.source.compare(table, sides.peer_cluster).same


BATCHES = [15, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])]


@pytest.mark.parametrize("batches", BATCHES)
def test_many_batches_leave_no_daemons_or_workers_behind(connect, server, sides, both, peer, batches):
    table = both()
    memory = []
    for number in range(batches):
        sides.source.put_many(table, 5, ["f:a"], first=5 * number)
        roll(sides.at, peer)
        assert [s.status for s in connect(f"run {number}").ship()] == [Status.DONE]
        if number % 100 == 99:
            memory.append(sum(p.memory_info().rss for p in psutil.Process(server.pid).children() if "java" in p.name()))
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    left = processes(server)
    assert (left["java"], left["daemon"]) == (1, 1), left
    assert left["worker"] <= TASKS, left
    if len(memory) > 1:
        assert memory[-1] < MAX_GROWTH * memory[0] + (100 << 20), memory
