"""A look of the watching DAG at a real ZooKeeper, and `walferry metrics`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from walferry.airflow.steps.watch import look
from walferry.cli.main import main
from walferry.source.cluster import SourceCluster, SourceError
from walferry.status.history import read_histories
from walferry.status.troubles import Kind, of_source

pytestmark = pytest.mark.usefixtures("refused_at_once")

HOUR = 3_600_000
CPU_SECONDS = 1.0
ONE_LOOK = """
import resource, sys
from walferry.airflow.steps.watch import look
from walferry.source.connection import from_text
from walferry.status.alerts import tell
from walferry.status.measures import measured
from walferry.status.troubles import of_source
source = from_text(sys.argv[1])
seen = look(lambda: source, True)
told = tell({}, of_source(seen.status, seen.old_wals, 7), seen.status.at_ms / 1000)
assert measured(seen.status, seen.old_wals) and seen.status.peers, seen
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, tmp_path: Path) -> SourceCluster:
    (tmp_path / "oldWALs").mkdir()
    root = f"file://{tmp_path}"
    return SourceCluster(quorum=zookeeper.quorum, wal_root=root, znode_parent=hbase.nodes.base, root=hbase.root)


def text_of(source: SourceCluster) -> str:
    extra = {"wal_root": source.wal_root, "znode_parent": source.znode_parent, "walferry_root": source.root}
    return json.dumps({"host": source.quorum, "extra": extra})


def behind(hbase: HBaseZNodes, max_lag: str) -> None:
    """Let the peer p be an hour behind."""
    begun = int(time.time() * 1000) - HOUR
    hbase.set_config("p", {"walferry.managed": "true", "walferry.max_lag": max_lag})
    hbase.add_wal(SERVER, "p", wal(begun))
    hbase.add_wal(SERVER, "p", wal(begun + 1000))


def test_a_look_tells_what_is_wrong_and_records_how_the_peers_stand(
    zk: KazooClient, hbase: HBaseZNodes, source: SourceCluster
) -> None:
    behind(hbase, "600")
    hbase.add_wal(SERVER, "gone", wal(1))
    seen = look(lambda: source, with_old_wals=True)
    kinds = {trouble.kind for trouble in of_source(seen.status, seen.old_wals, 7).troubles}
    assert {Kind.SLAVE_DOWN, Kind.STUCK, Kind.BEHIND, Kind.ORPHANED} == kinds
    assert seen.old_wals is not None
    assert seen.old_wals.problem is None
    found, _ = read_histories(session_of(zk, source), ["p"])
    assert [sample.wals_left for sample in found["p"]] == [1]


def test_a_limit_that_is_kept_is_no_trouble(hbase: HBaseZNodes, source: SourceCluster) -> None:
    behind(hbase, "86400")
    seen = look(lambda: source, with_old_wals=False)
    assert Kind.BEHIND not in {trouble.kind for trouble in of_source(seen.status, None, 7).troubles}
    assert seen.old_wals is None


def test_a_source_that_is_not_there_or_not_defined_is_one_trouble(source: SourceCluster) -> None:
    def undefined() -> SourceCluster:
        raise SourceError("connection 'hbase_source' is not defined")

    nowhere = SourceCluster(quorum="127.0.0.1:1", wal_root="file:///hbase")
    for which, expected in ((lambda: nowhere, "127.0.0.1:1"), (undefined, "'hbase_source' is not defined")):
        seen = look(which, with_old_wals=True)
        (trouble,) = of_source(seen.status, seen.old_wals, 7).troubles
        assert (trouble.kind, expected in trouble.line) == (Kind.UNREACHABLE, True)


def test_a_wrong_root_and_a_peer_that_cannot_be_read_are_told(hbase: HBaseZNodes, source: SourceCluster) -> None:
    (trouble,) = of_source(look(lambda: replace(source, znode_parent="/nowhere"), with_old_wals=False).status, None, 7).troubles
    assert trouble.kind is Kind.UNREACHABLE
    assert "peers and queues cannot be read: " in trouble.line
    hbase.zk.set(hbase.nodes.peer("p"), b"PBUF\xff")
    (trouble,) = of_source(look(lambda: source, with_old_wals=False).status, None, 7).troubles
    assert trouble.line.startswith(f"peer p: its configuration cannot be read: znode {hbase.nodes.peer('p')}: ")


def test_a_look_takes_less_than_a_second_of_a_core(hbase: HBaseZNodes, source: SourceCluster) -> None:
    behind(hbase, "86400")
    done = subprocess.run(
        [sys.executable, "-c", ONE_LOOK, text_of(source)], capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < CPU_SECONDS


def test_metrics_are_printed_for_prometheus(
    hbase: HBaseZNodes, source: SourceCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    behind(hbase, "600")
    assert main(["--source", text_of(source), "metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'walferry_source_up{source="hbase_source"} 1' in lines
    assert 'walferry_slave_up{source="hbase_source",peer="p"} 0' in lines
    assert 'walferry_max_lag_seconds{source="hbase_source",peer="p"} 600' in lines
    assert 'walferry_old_wals{source="hbase_source"} 0' in lines
    (lag,) = [line for line in lines if line.startswith("walferry_replication_lag_seconds{")]
    assert 3600 <= float(lag.split()[-1]) < 3700


def test_a_file_of_metrics_is_replaced_as_a_whole_and_stays_readable_for_others(
    source: SourceCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out" / "walferry.prom"
    command = ["--source", text_of(source), "metrics", "--no-old-wals", "--output", str(output)]
    assert main(command) == 1
    assert f"{output} cannot be written: No such file or directory" in capsys.readouterr().err
    output.parent.mkdir()
    output.write_text("old")
    held = output.open()
    assert main(command) == 0
    assert held.read() == "old", "who reads the file now sees what it was"
    held.close()
    assert 'walferry_source_up{source="hbase_source"} 1' in output.read_text()
    assert "walferry_old_wals" not in output.read_text()
    assert list(output.parent.iterdir()) == [output]
    assert output.stat().st_mode & 0o777 == 0o644


def test_of_a_source_that_is_not_there_the_metrics_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps({"host": "127.0.0.1:1", "extra": {"wal_root": f"file://{tmp_path}"}})
    assert main(["--source", text, "metrics"]) == 1
    told = capsys.readouterr()
    assert 'walferry_source_up{source="hbase_source"} 0' in told.out
    assert "127.0.0.1:1" in told.err
