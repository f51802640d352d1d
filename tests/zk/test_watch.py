"""A look of the watching DAG at a real ZooKeeper."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from tests.zk.watched import behind, source, text_of
from walferry.observe.status.findings import StatusKind, of_source
from walferry.observe.status.history import read_histories
from walferry.observe.status.statuses import look
from walferry.replication.source.cluster import SourceCluster, SourceError

__all__ = ["source"]  # fixtures

pytestmark = pytest.mark.usefixtures("refused_at_once")

ONE_LOOK = """
import sys
from walferry.observe.status.statuses import look
from walferry.replication.source.connection import from_text
from walferry.observe.status.findings import of_source
from walferry.observe.status.measures import measured
from walferry.observe.status.notified import notifications
source = from_text(sys.argv[1])
status, old_wals = look(lambda: source, True)
found = notifications({}, of_source(status, old_wals, 7), status.at_ms / 1000)
assert measured(status, old_wals) and status.peers, status
print(*sys.modules)
"""
HEAVY = {"airflow", "pandas", "pyarrow", "pyspark"}  # each takes as long to import as the whole look takes


def test_a_look_tells_what_is_wrong_and_records_how_the_peers_stand(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    behind(hbase, "600")
    hbase.add_wal(SERVER, "gone", wal(1))
    status, old_wals = look(lambda: source, with_old_wals=True)
    kinds = {finding.kind for finding in of_source(status, old_wals, 7).findings}
    assert {StatusKind.PEER_DOWN, StatusKind.STUCK, StatusKind.BEHIND, StatusKind.ORPHANED} == kinds
    assert old_wals is not None
    assert old_wals.problem == ""
    found, _ = read_histories(session_of(zk, source), ["p"])
    assert [sample.wals_left for sample in found["p"]] == [1]


def test_a_limit_that_is_kept_is_no_finding(hbase: HBaseZNodes, source: SourceCluster) -> None:
    behind(hbase, "86400")
    status, old_wals = look(lambda: source, with_old_wals=False)
    assert StatusKind.BEHIND not in {finding.kind for finding in of_source(status, None, 7).findings}
    assert old_wals is None


def test_a_source_that_is_not_there_or_not_defined_is_one_finding(source: SourceCluster) -> None:
    def undefined() -> SourceCluster:
        raise SourceError("connection 'hbase_source' is not defined")

    nowhere = SourceCluster(quorum="127.0.0.1:1", wal_root="file:///hbase")
    for which, expected in ((lambda: nowhere, "127.0.0.1:1"), (undefined, "'hbase_source' is not defined")):
        (finding,) = of_source(*look(which, with_old_wals=True), 7).findings
        assert (finding.kind, expected in finding.line) == (StatusKind.UNREACHABLE, True)


def test_a_wrong_root_and_a_peer_that_cannot_be_read_are_told(hbase: HBaseZNodes, source: SourceCluster) -> None:
    (finding,) = of_source(*look(lambda: replace(source, znode_parent="/nowhere"), with_old_wals=False), 7).findings
    assert finding.kind is StatusKind.UNREACHABLE
    assert "peers and queues cannot be read: " in finding.line
    hbase.zk.set(hbase.nodes.peer("p"), b"PBUF\xff")
    (finding,) = of_source(*look(lambda: source, with_old_wals=False), 7).findings
    assert finding.line.startswith(f"peer p: refused: its configuration cannot be read: znode {hbase.nodes.peer('p')}: ")


def test_a_look_imports_nothing_that_takes_long(hbase: HBaseZNodes, source: SourceCluster) -> None:
    behind(hbase, "86400")
    done = subprocess.run(
        [sys.executable, "-c", ONE_LOOK, text_of(source)], capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.returncode == 0, done.stderr
    assert HEAVY & {*done.stdout.split()} == set()
