"""A source whose HMaster is gone: a run that is told so ships what dead and live servers have left, and loses nothing, even if a
server that counts as dead still takes writes.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.failover import Failover, failover

SESSION_MS = 20_000  # a stopped server is dead then


@pytest.fixture
def site(cluster_folder: Path, java_client, unique) -> Iterator[Failover]:
    folder = cluster_folder / unique("masterless")
    sessions = {"zookeeper.session.timeout": str(SESSION_MS)}
    with failover(folder, java_client, regionservers=2, sleep_before_failover_ms=60_000, conf=sessions) as started:
        yield started


def test_a_server_that_only_seems_dead_and_a_live_one_are_shipped_without_an_hmaster(site: Failover) -> None:
    """The server is stopped, not killed: its session ends, its clients wait, and its WAL is open when its queue is drained."""
    site.write_bulk()
    with without_master(site) as stopped:
        status, _, said = site.command("failover", stopped)
        assert status != 0, said
        assert "no master is active" in said
        assert site.recovered()
        status, _, said = site.command("failover", stopped, "--master-absent")
        assert status == 0, said
        assert site.recovered() == ()
        status, _, said = site.command("ship", site.peer, "--master-absent")
        assert status == 0, said
    status, _, said = site.command("ship", site.peer, "--master-absent")
    assert (status, "an HMaster is active" in said) == (1, True), said
    site.finish()


@contextmanager
def without_master(site: Failover) -> Iterator[str]:
    """Kill the HMaster and stop a RegionServer until its session has ended. Then let it go on, and start an HMaster again.

    Nobody tells the server that it is dead: it must find out, and end, before there is an HMaster.
    """
    victim = site.victim()
    process = next(server.process for server in site.cluster.regionservers if server.server_name == victim)
    site.kill_master()
    process.popen.send_signal(signal.SIGSTOP)
    try:
        site.await_death(victim)
        yield victim
    finally:
        process.popen.send_signal(signal.SIGCONT)
        site.until(lambda: not process.alive, "the server finds out that it counts as dead")
        site.cluster.regionservers[:] = [server for server in site.cluster.regionservers if server.process is not process]
        site.cluster.start_master()
    site.cluster.start_regionserver()
