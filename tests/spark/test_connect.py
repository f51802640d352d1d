"""Jobs of a real Spark Connect server: one session used again, renewed, refused, interrupted; and their remains."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedded.spark_connect import ConnectServer
from walferry.base.kernels.compiled import levels
from walferry.jobs.archive import PACKAGE, build_archive
from walferry.jobs.connect import connect_job
from walferry.jobs.connect.errors import ConnectFailed, Interrupted, OperationLost, ServerGone, ServerRefuses
from walferry.jobs.connect.execution import Execution, interrupt_tag
from walferry.jobs.connect.plan import pickled_call, plan_of
from walferry.jobs.connect.probe import Worker, probe
from walferry.jobs.connect.server import Address, Server
from walferry.jobs.connect.sessions import Session, open_session, session_id

DAEMON = "connect_daemon"
TASKS = 2
REPO = Path(__file__).resolve().parents[2]
# What a worker makes of a pickled call of `eval`: a function for mapInArrow, and the type of its rows, which Spark 4.1 asks for.
TEXT = "__import__('pyspark.sql.types').sql.types.StructType().add('text', 'string')"
TEXTS = (
    f"(lambda batches: (__import__('pyarrow').RecordBatch.from_pydict({{'text': [%s]}}) for b in batches for n in b[0]), {TEXT})"
)
NUMBER = TEXTS % "str(n)"
PRELOADED = TEXTS % "str({'numba', 'walferry'} & set(__import__('sys').modules))"
LIBRARY = TEXTS % "__import__('walferry').__file__"
SLEEP = TEXTS % "__import__('time').sleep(300)"
SLOW = TEXTS % "str(__import__('time').sleep(5))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """Sessions end after 20 seconds without a job, and streams after 3."""
    settings = {
        "spark.connect.session.manager.defaultSessionTimeout": "20s",
        "spark.connect.session.manager.maintenanceInterval": "1s",
        "spark.connect.execute.manager.detachedTimeout": "3s",
        "spark.connect.execute.manager.maintenanceInterval": "1s",
        "spark.connect.execute.reattachable.senderMaxStreamDuration": "3s",
    }
    with ConnectServer(tmp_path_factory.mktemp("server"), tasks=TASKS, settings=settings) as started:
        yield started


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_archive(tmp_path_factory.mktemp("archive"))


def texts(session: Session, code: str, count: int = 1, tag: str = "test", tasks: int = 8) -> list[str]:
    """Return the rows of a job."""
    execution = Execution(session, plan_of(count, tasks, pickled_call(eval, code), "text"), tag)
    return list(connect_job.texts(str(session.server.address), execution.run(), "text", count))


def python_processes(server: ConnectServer) -> list[psutil.Process]:
    """Return the Python processes that the server has for its jobs: daemons and workers."""
    found = []
    for process in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # some have just ended
            if DAEMON in process.cmdline():
                found.append(process)
    return found


def begun(server: ConnectServer) -> int:
    """Return how many streams of jobs there have been."""
    return server.log_text().count("Starting for opId=")


def closed(server: ConnectServer, session: Session) -> bool:
    """Return whether the server has closed the idle session."""
    return any(session.id in line and "expired and will be closed" in line for line in server.log_text().splitlines())


def wait(done: Callable[[], bool], seconds: float = 30) -> bool:
    give_up = time.monotonic() + seconds
    while not done():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.1)
    return True


def test_a_new_worker_has_numba_and_nothing_of_the_library(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    """The first test of the module: no worker has done anything before."""
    with Server(server.address) as connected:
        assert texts(open_session(connected, archive, tmp_path), PRELOADED) == ["{'numba'}"]


def test_each_number_is_a_task_of_its_own_and_has_the_library(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    with Server(server.address) as connected:
        session = open_session(connected, archive, tmp_path)
        assert sorted(texts(session, NUMBER, count=5)) == ["0", "1", "2", "3", "4"]
        assert archive.stem in texts(session, LIBRARY)[0]


def test_a_probe_says_what_a_worker_is_and_has_the_session_of_jobs(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    found = probe(server.address, archive, tmp_path).worker
    processors = len(os.sched_getaffinity(0))
    assert found == Worker(socket.gethostname(), platform.python_version(), processors, compiled_for=levels()[0])
    with Server(server.address) as connected:
        assert open_session(connected, archive, tmp_path).id in server.log_text()


def test_a_probe_that_gets_no_task_is_ended(
    server: ConnectServer, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.jobs.connect.probe.MOST_SECONDS", 2.0)
    with Server(server.address) as connected, ThreadPoolExecutor(1) as pool:
        session = open_session(connected, archive, tmp_path)
        before = begun(server)
        hanging = pool.submit(texts, session, SLEEP, count=TASKS, tag="hanging")
        assert wait(lambda: begun(server) > before)
        with pytest.raises(ConnectFailed, match="has not run a job of one task within 2 s"):
            probe(server.address, archive, tmp_path)
        assert interrupt_tag(session, "hanging") == 1
        assert isinstance(hanging.exception(30), Interrupted)


def test_a_job_that_hangs_leaves_room_for_others(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    with Server(server.address) as connected, ThreadPoolExecutor(1) as pool:
        session = open_session(connected, archive, tmp_path)
        before = begun(server)
        hanging = pool.submit(texts, session, SLEEP, count=20, tag="hanging", tasks=1)
        assert wait(lambda: begun(server) > before)
        assert texts(session, NUMBER, count=3) == ["0", "1", "2"]
        assert interrupt_tag(session, "hanging") == 1
        assert isinstance(hanging.exception(30), Interrupted)


def test_many_jobs_use_one_session_and_leave_one_daemon(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    for _ in range(15):
        with Server(server.address) as connected:
            assert texts(open_session(connected, archive, tmp_path), NUMBER) == ["0"]
    assert 1 <= len(python_processes(server)) <= 1 + TASKS
    assert "ARTIFACT_ALREADY_EXISTS" not in server.log_text()


def test_tasks_that_find_a_new_library_at_the_same_time_all_get_the_session(
    server: ConnectServer, archive: Path, tmp_path: Path
) -> None:
    for number in range(4):  # servers mix up about every third of these
        newer = Path(shutil.copy(archive, tmp_path / f"walferry-{number:016x}.zip"))

        def opened(_: int, newer: Path = newer) -> str:
            with Server(server.address) as connected:
                return open_session(connected, newer, tmp_path / "memory").id

        with ThreadPoolExecutor(12) as pool:
            assert set(pool.map(opened, range(12))) == {session_id(newer, 0)}


def test_another_version_of_the_library_has_another_session(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    package = tmp_path / "walferry"
    subprocess.run(["cp", "-r", str(PACKAGE), str(package)], check=True)
    (package / "base/errors.py").write_text((package / "base/errors.py").read_text() + "\n# changed\n")
    newer = build_archive(tmp_path, package)
    assert session_id(newer, 0) != session_id(archive, 0)
    with Server(server.address) as connected:
        for each in (archive, newer, archive):
            assert each.stem in texts(open_session(connected, each, tmp_path), LIBRARY)[0]


def test_a_session_that_the_server_has_closed_is_renewed_and_that_is_remembered(
    server: ConnectServer, archive: Path, tmp_path: Path
) -> None:
    with Server(server.address) as connected:
        first = open_session(connected, archive, tmp_path)
        assert wait(lambda: closed(server, first), 60)
        second = open_session(connected, archive, tmp_path)
        assert second.id != first.id
        assert texts(second, NUMBER) == ["0"]
        (file,) = tmp_path.iterdir()
        assert session_id(archive, int(file.read_text())) == second.id
        assert open_session(connected, archive, tmp_path / "nowhere") == second  # found without the file too


def test_a_job_outlives_its_streams(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    with Server(server.address) as connected:
        began = time.monotonic()
        assert texts(open_session(connected, archive, tmp_path), SLOW) == ["None"]
        assert time.monotonic() - began > 5


def test_a_job_is_ended_by_its_tag(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    with Server(server.address) as connected:
        session = open_session(connected, archive, tmp_path)
        ended = threading.Timer(2, lambda: interrupt_tag(session, "tag1"))
        ended.start()
        with pytest.raises(Interrupted):
            texts(session, SLEEP, tag="tag1")
        ended.join()
        assert interrupt_tag(session, "tag1") == 0
        assert texts(session, NUMBER, count=4)  # all cores are free again


@contextlib.contextmanager
def at_a_signal(handler: Callable[[], None]) -> Iterator[None]:
    """Has a signal's handler run in the middle of what the block does."""
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    try:
        signal.alarm(2)
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_job_that_is_left_before_its_end_is_ended(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    class Left(Exception): ...

    def leave() -> None:
        raise Left

    with Server(server.address) as connected:
        session = open_session(connected, archive, tmp_path)
        with at_a_signal(leave), pytest.raises(Left):
            texts(session, SLEEP, tag="tag2")
        assert interrupt_tag(session, "tag2") == 0


def test_a_signal_s_handler_can_end_the_job_that_it_interrupts(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    """Airflow kills a task in this way."""
    with Server(server.address) as connected:
        session = open_session(connected, archive, tmp_path)
        execution = Execution(session, plan_of(1, 1, pickled_call(eval, SLEEP), "text"), "tag3")

        def end() -> None:
            with Server(server.address) as another:
                execution.interrupt(another)

        with at_a_signal(end), pytest.raises(Interrupted):
            list(execution.run())


def test_a_job_whose_client_is_killed_ends_soon(server: ConnectServer, archive: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.spark.test_connect import *\n"
        "with Server(Address('127.0.0.1', int(sys.argv[1]), token=sys.stdin.readline().strip())) as connected:\n"
        "    texts(open_session(connected, Path(sys.argv[2]), Path(sys.argv[3])), SLEEP, tag='killed')"
    )
    environ = {**os.environ, "PYTHONPATH": f"{REPO}/plugins:{REPO}"}
    command = [sys.executable, "-c", code, str(server.address.port), str(archive), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environ, text=True) as client:
        assert client.stdin is not None
        client.stdin.write(f"{server.address.token}\n")
        client.stdin.flush()
        before = begun(server)
        assert wait(lambda: begun(server) > before, 60)
        client.kill()
    assert wait(lambda: "that was abandoned and expired and will be removed" in server.log_text())
    with Server(server.address) as connected:
        assert interrupt_tag(open_session(connected, archive, tmp_path), "killed") == 0


def of_running(server: ConnectServer, ask: Callable[[psutil.Process], list[Any]]) -> list[Any]:
    """Return the answers of the server's processes, without ended ones: workers come and go."""
    found = []
    for process in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # zombies too
            found += ask(process)
    return found


def test_a_client_without_the_token_is_refused_and_no_text_has_the_token(
    server: ConnectServer, archive: Path, tmp_path: Path
) -> None:
    token = server.address.token
    for wrong in ("", "wrong", token[:-1]):
        with Server(replace(server.address, token=wrong)) as connected, pytest.raises(ServerRefuses) as refused:
            open_session(connected, archive, tmp_path)
        assert "password of the connection" in str(refused.value)
        assert token not in str(refused.value)
    assert token not in server.log_text()
    assert token not in repr(server.address) + str(server.address)
    words = of_running(server, lambda process: process.cmdline())
    assert words
    assert not any(token in word for word in words)


def test_the_server_listens_on_this_machine_only(server: ConnectServer) -> None:
    at = {c.laddr.ip for c in of_running(server, lambda process: process.net_connections()) if c.status == psutil.CONN_LISTEN}
    assert at
    assert at <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def test_a_server_that_is_not_there_is_gone(archive: Path, tmp_path: Path) -> None:
    with Server(Address("127.0.0.1", 1)) as connected, pytest.raises(ServerGone, match=r"Spark Connect server 127\.0\.0\.1:1"):
        open_session(connected, archive, tmp_path)


def test_a_server_that_is_killed_in_the_middle_of_a_job_is_gone_and_when_it_is_back_its_session_is_too(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.jobs.connect.execution.AWAY_SECONDS", 1.0)
    with ConnectServer(tmp_path / "log") as server:
        with Server(server.address) as connected:
            session = open_session(connected, archive, tmp_path)
            assert texts(session, NUMBER) == ["0"]
            killing = threading.Timer(3, server.stop)
            killing.start()
            with pytest.raises((ServerGone, OperationLost)):
                texts(session, SLEEP)
            killing.join()
        server.start()
        with Server(server.address) as connected:
            again = open_session(connected, archive, tmp_path)
            assert again.id == session.id
            assert texts(again, NUMBER) == ["0"]
