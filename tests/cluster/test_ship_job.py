"""The Spark job as spark-submit runs it."""

from __future__ import annotations

import json

import pytest

from embedded.spark import submit
from tests.cluster.walferry_runs import plan, roll
from walferry.summary import Status, read_run
from walferry.zk.client import connected


@pytest.fixture
def job(sides, tmp_path):
    """`job(peer, run id)` → exit code and output of the job."""

    def run(peer_id: str, run_id: str = "run", **options: object) -> tuple[int, str]:
        log = tmp_path / "job.log"
        with log.open("wb") as out:
            code = submit(sides.at, peer_id, run_id, out=out, **options).wait(300)
        return code, log.read_text()

    return run


def test_it_ships_and_its_summaries_come_back_through_zookeeper(sides, both, peer, job):
    table = both()
    sides.source.put_many(table, 1000, ["f:a", "l:b"])
    roll(sides.at, peer)
    code, output = job(peer, "manual__2026-01-01T00:00:00+00:00")
    assert code == 0, output
    with connected(sides.at.quorum) as zk:
        (kept,) = read_run(zk, sides.at, peer, "manual__2026-01-01T00:00:00+00:00")
    assert (kept.status, kept.shippedOps, kept.shippedCells, kept.cellsFiltered) == (Status.DONE, 1000, 1000, 1000)
    (printed,) = [json.loads(line) for line in output.splitlines() if line.startswith("[{")]
    assert printed[0]["shippedOps"] == 1000
    assert sides.source.compare(table, sides.slave, families=["f"]).same
    assert not plan(sides.at, peer).to_ship


def test_a_peer_that_is_not_there_ends_it_with_the_reason(job):
    code, output = job("nosuchpeer")
    assert code != 0
    assert "peer nosuchpeer: there is no" in output


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--lanes", "0"), "--lanes is 0; it must be 1 to 64"),
        (("--sink-ratio", "2"), "--sink-ratio is 2; it must be over 0 and at most 1"),
        (("--deadline", "-1"), "--deadline is -1; it must be more than 0 seconds"),
    ],
)
def test_arguments_are_checked(peer, job, args, reason):
    code, output = job(peer, args=args)
    assert code != 0
    assert reason in output
