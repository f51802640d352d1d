"""Processes of the embedded clusters do not outlive the process that started them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embedded.processes import ClusterError, start_java, wait_until
from tests.processes import gone

# Starts a cluster's JVM, prints its pid and waits to be killed.
PARENT = """
import sys, time
from pathlib import Path
from embedded.standalone import StandaloneCluster
cluster = StandaloneCluster(Path(sys.argv[1]))
cluster.launch()
print(cluster.process.pid, flush=True)
time.sleep(600)
"""


def test_a_jvm_ends_when_its_parent_is_killed(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert not gone(child)

    parent.send_signal(signal.SIGKILL)
    parent.wait(30)

    deadline = time.monotonic() + 60
    while not gone(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert gone(child)


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path):
    process = start_java("broken", "no.such.Main", folder=tmp_path)

    with pytest.raises(ClusterError, match=r"(?s)broken ended with code 1 before it serves.*no\.such\.Main"):
        wait_until(lambda: False, "it serves", processes=[process], timeout=60)


def test_a_wait_is_bounded(tmp_path):
    with pytest.raises(ClusterError, match="not within 0 s: pigs fly"):
        wait_until(lambda: False, "pigs fly", processes=[], timeout=0.3)


def test_two_clusters_of_one_folder_are_refused_while_the_first_one_runs(tmp_path):
    first = start_java("source", "no.such.Main", folder=tmp_path)
    first.popen.send_signal(signal.SIGSTOP)  # it would end at once
    with pytest.raises(ClusterError, match=f"another source, with process id {first.pid}, has its data in {tmp_path}"):
        start_java("source", "no.such.Main", folder=tmp_path)
    first.kill()
    again = start_java("source", "no.such.Main", folder=tmp_path)
    again.kill()
