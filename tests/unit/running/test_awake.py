"""The processors spin while the host takes time away, at the lowest priority, and no longer than the tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded.processes import wait_until
from tests.processes import ROOT, gone
from tests.running.awake import Waker, spinning

KILLED = """
import os
from tests.running.awake import spinning
print(*[process.pid for process in spinning()], flush=True)
os.kill(os.getpid(), 9)
"""


def await_that(holds: Callable[[], bool], what: str) -> None:
    # Processes that run only while nothing else wants to take long to end on a busy machine.
    wait_until(holds, what, processes=[], timeout=300)


@pytest.mark.long
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


class Host:
    """Takes a share of the processors' time, and knows how often it was asked for it."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.share


def waker_on(host: Host, folder: Path) -> Waker:
    """A Waker that looks often, on a machine of its own: that of this run of the tests has another lock."""
    return Waker(host, look_seconds=0.02, stay_seconds=0.1, lock=folder / "lock")


def looks(host: Host, number: int = 5) -> None:
    """Wait until Wakers have looked some more times."""
    before = host.asked
    await_that(lambda: host.asked >= before + number, "they look")


def test_they_do_not_run_while_the_host_takes_little_time(tmp_path: Path) -> None:
    host = Host(0.05)
    waker = waker_on(host, tmp_path)
    waker.start()
    try:
        looks(host)
        assert not waker.spinning
    finally:
        waker.stop()


@pytest.mark.long
def test_they_run_while_the_host_takes_time_away_and_then_rest(tmp_path: Path) -> None:
    host = Host(0.5)
    waker = waker_on(host, tmp_path)
    waker.start()
    try:
        await_that(lambda: bool(waker.spinning), "they spin")
        started = waker.spinning
        host.share = 0.0
        await_that(lambda: all(process.returncode is not None for process in started), "they rest")
    finally:
        waker.stop()


@pytest.mark.long
def test_one_run_does_it_for_all_that_run_on_the_machine(tmp_path: Path) -> None:
    host = Host(1.0)
    wakers = [waker_on(host, tmp_path), waker_on(host, tmp_path)]
    try:
        for waker in wakers:
            waker.start()
        await_that(lambda: any(waker.spinning for waker in wakers), "one spins")
        looks(host)
        (spins,) = [waker for waker in wakers if waker.spinning]
        spins.stop()
        (other,) = [waker for waker in wakers if waker is not spins]
        await_that(lambda: bool(other.spinning), "the other one takes its turn")
    finally:
        for waker in wakers:
            waker.stop()
