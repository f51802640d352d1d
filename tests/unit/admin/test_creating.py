"""A new peer is added behind new WALs, and also where a server does not begin one."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.admin import creating, peers
from walferry.replication.queues.rolling import Rolled


def test_servers_begin_new_wals_before_the_peer_is_added_and_one_that_does_not_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[str] = []

    def roll(session: object, of: object) -> Rolled:
        reported.append("rolled")
        return Rolled(1, {"rs1,16020,1": "it did not answer within 30 s"})

    monkeypatch.setattr(creating, "check_ends", lambda *_, **__: reported.append("checked"))
    monkeypatch.setattr(peers, "roll", roll)
    monkeypatch.setattr(creating, "_add", lambda *_: reported.append("added"))
    admin: Any = SimpleNamespace(session=None, find=lambda _: None)
    with caplog.at_level(logging.WARNING):
        creating.create(admin, "p", "zk:2181:/hbase")
    assert reported == ["checked", "rolled", "added"]
    assert "rs1,16020,1 has not begun a new WAL" in caplog.text
