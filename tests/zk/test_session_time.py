"""A client knows by itself when its session may have ended: if it is cut off from a real ZooKeeper, or stopped as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from embedded.processes import wait_until
from embedded.zookeeper import ZooKeeperServer
from tests.cluster.proxy import proxied_zookeeper
from walferry.base.zk.client import connect, disconnect
from walferry.base.zk.right import SURE_SHARE, has_heard

SESSION_SECONDS = 4.0
LOOK = """
import sys, time
from walferry.base.zk.client import connect
from walferry.base.zk.right import has_heard
zk = connect(sys.argv[1], session_timeout=4.0)
while True:
    print(time.time() - zk.heard.seconds, time.time(), has_heard(zk), flush=True)
    time.sleep(0.02)
"""


def test_a_quiet_client_is_heard_by_its_pings(zookeeper: ZooKeeperServer) -> None:
    zk = connect(zookeeper.quorum, session_timeout=SESSION_SECONDS)
    assert zk.heard.session_seconds == SESSION_SECONDS
    ends = time.monotonic() + 2 * SESSION_SECONDS
    while time.monotonic() < ends:
        assert zk.heard.seconds < SESSION_SECONDS / 3 + 1.0  # a ping follows each third; this machine may be slow
        time.sleep(0.02)
    disconnect(zk)


@pytest.mark.parametrize("how", ["cut", "silent"])
def test_one_that_is_cut_off_is_unsure_well_before_its_session_ends(
    zookeeper: ZooKeeperServer, new_client: Callable[[], KazooClient], how: str
) -> None:
    other = new_client()
    with proxied_zookeeper(zookeeper.quorum) as proxy:
        zk = connect(f"127.0.0.1:{proxy.port}", session_timeout=SESSION_SECONDS)
        zk.create("/heard", ephemeral=True)
        began = time.monotonic()
        if how == "cut":
            proxy.cut()
        else:
            proxy.answers.lock()
            proxy.requests.lock()
        wait_until(lambda: not has_heard(zk), "it is unsure", processes=[], timeout=SESSION_SECONDS)
        assert time.monotonic() - began < SESSION_SECONDS * SURE_SHARE + 0.5
        assert other.exists("/heard"), "its session goes on"
        if how == "silent":
            proxy.let_go()
        else:
            proxy.mend()
        wait_until(lambda: has_heard(zk), "it is heard again", processes=[], timeout=30)
        disconnect(zk)


def test_a_process_that_was_stopped_is_unsure_as_soon_as_it_goes_on(zookeeper: ZooKeeperServer) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", LOOK, zookeeper.quorum], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().endswith("True\n")
            process.send_signal(signal.SIGSTOP)
            time.sleep(SESSION_SECONDS * SURE_SHARE + 0.3)
            went_on = time.time()
            process.send_signal(signal.SIGCONT)
            asked, looked, heard = process.stdout.readline().split()
            while float(looked) < went_on:
                asked, looked, heard = process.stdout.readline().split()
            assert heard == "False" or float(asked) > went_on  # on a busy machine a ping may have been answered before the look
        finally:
            process.kill()
