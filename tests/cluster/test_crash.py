"""The Spark job is killed while it ships, again and again: nothing is lost, and no position is ever ahead of the slave."""

from __future__ import annotations

import math
import random
import time

import psutil
import pytest

from embedded.spark import submit
from tests.cluster.proxy import Flow
from tests.cluster.walferry_runs import WalTruth, plan, roll

SPEED = 3 << 20  # bytes a second, so that a job ships for some time
PATIENCE = 120


def kill_tree(pid: int) -> int:
    """kill -9 of a process and all its descendants at once; how many these were."""
    root = psutil.Process(pid)
    tree = [root, *root.children(recursive=True)]
    for process in tree:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    return len(tree)


def settled(flow: Flow) -> int:
    """Bytes that have passed once what a killed job had sent has passed too."""
    passed = -1
    while passed != flow.passed:
        passed = flow.passed
        time.sleep(0.5)
    return passed


@pytest.mark.timeout(0)
@pytest.mark.parametrize(("kills", "rows"), [(2, 30_000), pytest.param(20, 120_000, marks=pytest.mark.soak)])
def test_a_job_killed_again_and_again_loses_nothing_and_no_position_runs_ahead(
    sides, both, proxied, proxied_peer, tmp_path, kills, rows
):
    table = both()
    truth = WalTruth(sides.at, proxied_peer, sides.source, sides.slave)
    written, midway = 0, 0
    with (tmp_path / "job.log").open("wb") as log:
        for kill in range(kills):
            if not plan(sides.at, proxied_peer).to_ship:
                proxied.sink.requests.speed = math.inf
                sides.source.put_many(table, rows, ["f:a", "l:b"], first=written, value_bytes=500, batch=20)
                written += rows
                roll(sides.at, proxied_peer)
                assert truth.read_closed()
            proxied.sink.requests.speed = SPEED
            passed = settled(proxied.sink.requests)
            job = submit(sides.at, proxied_peer, "crash", out=log)
            give_up = time.monotonic() + PATIENCE
            while proxied.sink.requests.passed < passed + (64 << 10):
                assert job.poll() is None, f"ended with {job.returncode}: {(tmp_path / 'job.log').read_text()[-2000:]}"
                assert time.monotonic() < give_up
                time.sleep(0.01)
            delay = random.uniform(0, 4)
            time.sleep(delay)
            assert job.poll() is None
            processes = kill_tree(job.pid)
            job.wait()
            proven = truth.check()
            midway += truth.in_mid_shipment
            print(f"kill {kill + 1} of {processes} processes after {delay:.2f} s: {proven} more cells proven")
        proxied.sink.requests.speed = math.inf
        assert submit(sides.at, proxied_peer, "crash", out=log).wait(300) == 0, (tmp_path / "job.log").read_text()[-2000:]
    truth.check()
    assert midway >= kills // 2
    assert not plan(sides.at, proxied_peer).to_ship
    assert sides.source.compare(table, sides.slave, families=["f"]).same
    assert sides.slave.count_rows(table) == written
    assert sides.slave.scan_all(table, ["l"]) == []
