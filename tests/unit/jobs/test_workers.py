"""Tasks in processes of this machine: their results, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from walferry.base import jobs
from walferry.base.jobs import BackendFailed
from walferry.engine.summary import GroupSummary
from walferry.jobs.workers import LocalProcesses, run_all

ROOT = Path(__file__).resolve().parents[3]


def doubled(number: int) -> tuple[int, int]:
    if number < 0:
        os._exit(7)
    return number * 2, os.getpid()


def test_each_thing_has_its_result_and_no_more_processes_run_than_asked_for() -> None:
    results = dict(run_all(doubled, [1, 2, 3, 4, 5], 2))
    found = {thing: result[0] for thing, result in results.items() if not isinstance(result, BackendFailed)}
    assert found == {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}
    assert len({result[1] for result in results.values() if not isinstance(result, BackendFailed)}) <= 2


def test_nothing_is_done_of_nothing() -> None:
    assert list(run_all(doubled, [], 4)) == []


@pytest.mark.long
def test_a_process_that_dies_takes_only_its_own_task_along() -> None:
    results = dict(run_all(doubled, [-1, 1, 2], 1))
    assert str(results.pop(-1)) == "its process has ended with code 7"
    assert sorted(result[0] for result in results.values() if not isinstance(result, BackendFailed)) == [2, 4]


def counted(number: int) -> GroupSummary:
    if number < 0:
        os._exit(7)
    return GroupSummary(group="g", shippedOps=number)


@pytest.mark.long
def test_a_job_gets_the_results_in_the_order_of_its_items_and_of_a_dead_process_what_it_makes_of_it() -> None:
    def lost(number: int, why: str) -> GroupSummary:
        return GroupSummary(group="g", error=f"{number}: {why}")

    summaries = LocalProcesses(2).run(counted, [3, -1, 1], GroupSummary, lost)
    assert [(s.shippedOps, s.error) for s in summaries] == [(3, None), (0, "-1: its process has ended with code 7"), (1, None)]
    with pytest.raises(BackendFailed, match="ended with code 7"):
        LocalProcesses(2).run(counted, [-1], GroupSummary)


def counted_once_told(file: str | None) -> GroupSummary:
    while file and not Path(file).exists():
        time.sleep(0.01)
    return GroupSummary(group="g")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_how_many_items_have_ended_is_reported_until_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "REPORT_SECONDS", 0.01)
    reported, told = list[tuple[int, int]](), tmp_path / "told"

    def progress(ended: int, of: int) -> None:
        reported.append((ended, of))
        if ended:
            told.touch()
            raise ZeroDivisionError

    assert len(LocalProcesses(2).run(counted_once_told, [str(told), None], GroupSummary, progress=progress)) == 2
    assert set(reported) == {(0, 2), (1, 2)}
    assert reported.count((1, 2)) == 1


HOLDS = """\
import sys, time
from pathlib import Path
from walferry.jobs.workers import run_all

def hold(path):
    Path(path).write_text("held")
    try:
        time.sleep(600)
    finally:
        time.sleep(0.5)
        Path(path).write_text("given up")

if __name__ == "__main__":
    try:
        list(run_all(hold, sys.argv[1:], 2))
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_tasks_hold_is_given_up_when_the_command_is_interrupted_or_killed(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    held = [tmp_path / "a", tmp_path / "b"]
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "holds.py"), *map(str, held)], start_new_session=True, preexec_fn=heed_interrupts,
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins")},
    ) as command:  # fmt: skip
        await_text(held, "held")
        if number is signal.SIGINT:
            os.killpg(command.pid, number)  # as a terminal does: to all processes of the command
        else:
            command.send_signal(number)
        assert command.wait(30) == (-number if number is signal.SIGKILL else 130)
        if number is signal.SIGKILL:
            await_text(held, "given up")
        assert [file.read_text() for file in held] == ["given up"] * 2


def heed_interrupts() -> None:
    """What a shell has begun in the background ignores them otherwise, and so do its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def await_text(files: list[Path], text: str) -> None:
    give_up = time.monotonic() + 60
    while [file.read_text() if file.exists() else "" for file in files] != [text] * len(files):
        assert time.monotonic() < give_up, text
        time.sleep(0.05)
