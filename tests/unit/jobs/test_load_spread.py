"""What a Spark Connect server is given of a load, and what it may answer."""

from __future__ import annotations

import pytest

from tests.unit.jobs.load_server import Server
from tests.unit.shipping.bulkload.jobs import groups_of, job
from walferry.jobs import load_spread
from walferry.jobs.connect.errors import ConnectFailed
from walferry.jobs.load_spread import ConnectSpread
from walferry.shipping.bulkload.loading import PartitionOutcome
from walferry.shipping.bulkload.region_load import Loaded


def test_outcomes_come_as_they_were_told() -> None:
    outcomes = [PartitionOutcome("t", "t-0", Loaded(1, 2, 3)), PartitionOutcome(notes=("{}",))]
    server = Server(*outcomes)
    spread = ConnectSpread(server.run, 4, print)
    assert (spread.cores, spread(job(), groups_of(2, 1))) == (4, outcomes)


def test_a_server_may_send_all_that_there_can_be() -> None:
    """A WAL can be broken, and have edits of an unfit table: two notes for each partition. Else there is a report of it."""
    server, made = Server(), job()
    ConnectSpread(server.run, 4, print)(made, groups_of(1))
    assert server.most >= len(made.regions) + 2 * made.partitions
    ConnectSpread(server.run, 4, print)(made, groups_of(2, 3))
    assert server.most >= len(made.regions) + 2 * made.partitions * 5


def test_a_job_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_spread, "MOST_SENT_BYTES", 1000)
    server = Server()
    with pytest.raises(ConnectFailed, match="too many for a Spark Connect server"):
        ConnectSpread(server.run, 4, print)(job(), groups_of(1))
    assert not server.plans
