"""The emergency start looks at the servers before it opens anything."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.zk.region_commands import Commands, regions
from walferry.master import emergency, work
from walferry.replication.source.connection import from_text
from walferry.replication.source.session import open_session

__all__ = ["regions"]  # a fixture


@pytest.mark.slow
def test_an_emergency_start_refuses_servers_of_hbase_2_that_come_after_it_has_begun(
    zk: KazooClient, regions: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(work, "check_hbase_1", lambda session: None)  # as long as no server is live
    monkeypatch.setattr(emergency, "check_hbase_1", lambda session: begun.append("again"))
    with open_session(from_text(regions.source)) as session:
        emergency.start_cluster(session, work.WorkTerms("test", host="localhost", wait_seconds=60), 1, begun.append)
    assert begun[1] == "again", "right after the servers are there, before anything is opened"
