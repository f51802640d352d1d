"""`walferry queues set-position`, with a real ZooKeeper."""

from __future__ import annotations

import json

import pytest

from tests.zk.test_repositioning import CONTENT, STARTS, At, at
from walferry.cli.main import main
from walferry.hbase.values import encode_position

__all__ = ["at"]  # fixtures


def test_the_command_tells_what_it_does(
    at: At, zookeeper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("walferry.replication.source.agreement.check_peer", lambda *_, **__: None)
    at.begin(encode_position(len(CONTENT) + 4096))
    extra = {"wal_root": at.source.wal_root, "znode_parent": at.hbase.nodes.base, "walferry_root": at.hbase.root}
    source = json.dumps({"host": zookeeper.quorum, "extra": extra})
    command = ["--source", source, "queues", "set-position", "p", at.name, "0"]
    assert main([*command, "--dry-run"]) == 0
    reported = capsys.readouterr().out
    assert f"would be set from byte {len(CONTENT) + 4096} to byte 0, of {len(CONTENT)} bytes" in reported
    assert "6 of 6 entries are shipped again, 0 are left out" in reported
    assert at.position == len(CONTENT) + 4096
    assert main(command) == 0
    assert at.position == 0
    assert main([*command[:-1], str(STARTS[1] + 1)]) == 1
    assert "no entry of" in capsys.readouterr().err
    assert main(["--source", source, "queues", "p"]) in (0, 3), "the queues are shown as before"
