"""Users are warned before rolls give a server so many WALs that HBase forces flushes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from tests.zk.web_page import CONFIGURATION, Answer, add_server, pages, web_page
from walferry.admin.diagnosis.source import check
from walferry.base.findings import Severity
from walferry.hbase.cluster import live_servers
from walferry.replication.queues.rolling import Rolled
from walferry.replication.retention.unflushed import near_limit
from walferry.replication.source.session import Session
from walferry.runs.steps import batch
from walferry.runs.values import RollReport

MEMORY = "/jmx?qry=java.lang:type=Memory"
MB = 1 << 20


@pytest.fixture
def session(zk: KazooClient, hbase: HBaseZNodes, tmp_path: Path) -> Session:
    return Session(replace(session_of(zk, hbase).source, wal_root=f"file://{tmp_path}"), zk)


def add_wals(folder: Path, server: str, closed: int, provider: str = "", first: int = 0) -> None:
    (folder / "WALs" / server).mkdir(parents=True, exist_ok=True)
    for number in range(first, first + closed + 1):
        (folder / "WALs" / server / wal(number, server, provider)).touch()


def found(session: Session) -> list[str]:
    findings = near_limit(session, live_servers(session.zk, session.nodes))
    assert all(finding.severity is Severity.NOTE for finding in findings)
    return [finding.text for finding in findings]


def shown(**settings: str) -> Answer:
    """Pages of a server with a heap of 8 GB and these settings, in whose names _ stands for a dot."""
    properties = [{"key": key.replace("_", "."), "value": value} for key, value in settings.items()]
    memory = {"beans": [{"name": "java.lang:type=Memory", "HeapMemoryUsage": {"max": 8192 * MB}}]}
    return pages({CONFIGURATION: json.dumps({"properties": properties}).encode(), MEMORY: json.dumps(memory).encode()})


def test_a_server_without_web_pages_is_reported_from_three_quarters_of_the_least_limit_on(
    session: Session, tmp_path: Path
) -> None:
    add_wals(tmp_path, SERVER, 23)
    assert found(session) == []
    add_wals(tmp_path, SERVER, 24)
    (text,) = found(session)
    assert text.startswith(
        f"1 RegionServers have many WALs with edits that are not flushed: {SERVER} 24. With more than 32 (the "
    )


def test_the_check_and_the_report_of_a_batch_have_the_warning(
    zookeeper, session: Session, hbase: HBaseZNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hbase.set_config("p", {"walferry.managed": "true"})
    add_wals(tmp_path, SERVER, 30)
    source = replace(session.source, quorum=zookeeper.quorum)
    (finding,) = [each for each in check(source) if each.kind == "un-flushed WALs"]
    assert f"{SERVER} 30" in finding.text
    monkeypatch.setattr(batch.rolling, "roll", lambda *_: Rolled(1))
    report = batch.roll(source, ["p"])
    assert report is not None
    assert report.warnings == [finding.line]
    assert RollReport.from_xcom(report.to_xcom()).warnings == report.warnings


@pytest.mark.parametrize(
    ("settings", "limit", "why"),
    [
        ({"hbase_regionserver_maxlogs": "40"}, 40, "hbase.regionserver.maxlogs"),
        ({"hbase_regionserver_global_memstore_size": "0.4", "dfs_blocksize": str(128 * MB)}, 51, "computed"),
        ({"dfs_blocksize": str(1024 * MB)}, 32, "computed"),
        ({"hbase_regionserver_hlog_blocksize": str(256 * MB), "hbase_regionserver_global_memstore_size": "0.3"}, 38, "computed"),
        ({}, 32, "the least default"),
        ({"hbase_regionserver_maxlogs": "many"}, 32, "the least default"),
        ({"dfs_blocksize": "0"}, 32, "the least default"),
    ],
)
def test_the_limit_is_as_the_server_has_it_or_computes_it(
    session: Session, hbase: HBaseZNodes, tmp_path: Path, settings: dict[str, str], limit: int, why: str
) -> None:
    with web_page(shown(**settings)) as port:
        server = add_server(hbase, port)
        add_wals(tmp_path, server, -(-limit * 3 // 4) - 1)
        assert found(session) == []
        add_wals(tmp_path, server, -(-limit * 3 // 4))
        (text,) = found(session)
    assert f"With more than {limit} ({why}" in text


def test_wals_of_several_groups_and_of_hbase_meta_are_not_added_up(session: Session, tmp_path: Path) -> None:
    for provider in ("", "regiongroup-0", "regiongroup-1"):
        add_wals(tmp_path, SERVER, 20, provider)
    for number in range(40):
        (tmp_path / "WALs" / SERVER / f"{wal(number, SERVER, 'meta')}.meta").touch()
    assert found(session) == []
