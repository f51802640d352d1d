"""`embedded.hold` leaves no process behind of a program with many processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]

# A program with a child in a session of its own and an orphan: each writes its pid and would sleep on.
# A line is one write: the three share a pipe, and with PYTHONUNBUFFERED a print would be two.
PROGRAM = """
import os, subprocess, sys, time
say = "import os; os.write(1, b'%d\\\\n' % os.getpid())"
sleeper = [sys.executable, "-c", say + "; import time; time.sleep(600)"]
subprocess.Popen(sleeper, start_new_session=True)
if os.fork() == 0:
    subprocess.Popen(sleeper)
    os._exit(0)
exec(say)
time.sleep(600)
"""


@pytest.fixture
def held():
    command = [sys.executable, "-m", "embedded.hold", sys.executable, "-c", PROGRAM]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPO)
    assert process.stdout is not None
    yield process, [int(process.stdout.readline()) for _ in range(3)]
    process.kill()
    process.wait(30)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def all_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 60
    while any(map(exists, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not any(map(exists, pids))


def test_all_descendants_end_when_the_input_ends(held):
    process, pids = held
    assert all(map(exists, pids))

    process.stdin.close()

    assert process.wait(60) != 0
    assert all_gone(pids)


def test_a_command_that_was_ended_has_not_succeeded_whoever_reaps_it():
    # The thread that kills reaps the child, Popen.wait comes after that, and before the thread ends the process.
    late = """
import os, subprocess, sys, time, psutil
from embedded import hold
wait = subprocess.Popen.wait
def late(child):
    while psutil.pid_exists(child.pid):
        pass
    return wait(child)
subprocess.Popen.wait = late
leave = os._exit
os._exit = lambda code: (time.sleep(2), leave(code))
sys.exit(hold.main(["sleep", "600"]))
"""
    with subprocess.Popen([sys.executable, "-c", late], stdin=subprocess.PIPE, cwd=REPO) as process:
        process.stdin.close()
        assert process.wait(60) != 0


def test_all_descendants_end_at_sigterm(held):
    process, pids = held

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) != 0
    assert all_gone(pids)


def test_the_exit_code_is_the_commands():
    command = [sys.executable, "-m", "embedded.hold", sys.executable, "-c", "raise SystemExit(7)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=REPO) as process:
        assert process.wait(60) == 7
