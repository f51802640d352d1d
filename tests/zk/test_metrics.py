"""`walferry metrics`, with a real ZooKeeper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.zk.hbase_znodes import HBaseZNodes
from tests.zk.watched import behind, source, text_of
from walferry.cli.main import main
from walferry.replication.source.cluster import SourceCluster

__all__ = ["source"]  # fixtures

pytestmark = pytest.mark.usefixtures("refused_at_once")


def test_metrics_are_printed_for_prometheus(
    hbase: HBaseZNodes, source: SourceCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    behind(hbase, "600")
    assert main(["--source", text_of(source), "metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'walferry_source_up{source="hbase_source"} 1' in lines
    assert 'walferry_peer_cluster_up{source="hbase_source",peer="p"} 0' in lines
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
    reported = capsys.readouterr()
    assert 'walferry_source_up{source="hbase_source"} 0' in reported.out
    assert "127.0.0.1:1" in reported.err
