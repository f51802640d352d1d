"""The processors spin while the host takes time away, at the lowest priority, and no longer than the tests run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded.processes import wait_until
from tests import awake
from tests.awake import Waker, spinning
from tests.processes import ROOT, gone

KILLED = """
import os
from tests.awake import spinning
print(*[process.pid for process in spinning()], flush=True)
os.kill(os.getpid(), 9)
"""


def await_that(holds: Callable[[], bool], what: str) -> None:
    wait_until(holds, what, processes=[], timeout=30)


def test_a_process_a_processor_runs_only_while_nothing_else_wants_to() -> None:
    processes = spinning()
    try:
        await_that(lambda: all(os.sched_getscheduler(process.pid) == os.SCHED_IDLE for process in processes), "all are idle ones")
        assert {min(os.sched_getaffinity(process.pid)) for process in processes} == os.sched_getaffinity(0)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_they_end_with_the_process_that_started_them() -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False, cwd=ROOT)
    pids = [int(pid) for pid in ended.stdout.split()]

    assert len(pids) == len(os.sched_getaffinity(0))
    await_that(lambda: all(map(gone, pids)), "all have ended")


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_they_run_while_the_host_takes_time_away_and_not_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(awake, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(awake, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(awake, "STAY_SECONDS", 0.2)
    monkeypatch.setattr(awake, "stolen_share", lambda before, after: share)
    monkeypatch.setattr(awake, "spinning", lambda: started.extend(spinning()) or list(started))
    waker = Waker()
    waker.start()
    try:
        if share < awake.STOLEN_SHARE:
            time.sleep(0.5)
            assert not started
        else:
            await_that(lambda: bool(started), "they spin")
            monkeypatch.setattr(awake, "stolen_share", lambda before, after: 0.0)
            await_that(lambda: all(process.returncode is not None for process in started), "they rest")
    finally:
        waker.stop()


def test_one_run_does_it_for_all_that_run_on_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(awake, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(awake, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(awake, "stolen_share", lambda before, after: 1.0)
    wakers = [Waker(), Waker()]
    try:
        for waker in wakers:
            waker.start()
        await_that(lambda: any(waker._spinning for waker in wakers), "one spins")
        time.sleep(0.5)
        (spins,) = [waker for waker in wakers if waker._spinning]
        spins.stop()
        (other,) = [waker for waker in wakers if waker is not spins]
        await_that(lambda: bool(other._spinning), "the other one takes its turn")
    finally:
        for waker in wakers:
            waker.stop()
