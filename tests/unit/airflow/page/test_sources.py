"""The page's message about a source that it cannot look at."""

from __future__ import annotations

import threading
import time

import pytest

from tests.unit.airflow.page.pages import behind
from walferry.airflow.page import sources
from walferry.airflow.page.sources import Sources, without_secrets
from walferry.observe.status.statuses import Statuses
from walferry.replication.source.cluster import SourceCluster, SourceError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("wal_root is 'hdfs://me:geheim@nn:8020/hbase'", "wal_root is 'hdfs://…@nn:8020/hbase'"),
        ("jceks:///k?passwordFile=/etc/pw&x=1", "jceks:///k?passwordFile=…&x=1"),
        ("password: geheim", "password: …"),
        ('{"s3.secret.key": "geheim", "port": 1}', '{"s3.secret.key": "…", "port": 1}'),
        ("an extra without secrets", "an extra without secrets"),
    ],
)
def test_what_may_be_a_secret_is_left_out(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_wrong_connection_is_told_and_an_unexpected_error_is_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(conn_id: str) -> None:
        raise SourceError("connection 'a': wal_root is missing") if conn_id == "a" else RuntimeError("geheim")

    monkeypatch.setattr(sources, "_read_connection", wrong)
    a, b = Sources().look(["a", "b"])
    assert a.problem == "connection 'a': wal_root is missing"
    assert "geheim" not in str(b.problem)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A source that is looked at as soon as this is set."""
    ready = threading.Event()

    def of(statuses: Statuses, source: SourceCluster) -> object:
        ready.wait(30)
        return behind().status

    monkeypatch.setattr(sources, "_read_connection", lambda conn_id: SourceCluster(quorum="zk", wal_root="file:///x"))
    monkeypatch.setattr(Statuses, "of", of)
    monkeypatch.setattr(Statuses, "old_wals", lambda statuses, source, wait_seconds: None)
    return ready


def test_while_a_new_look_takes_long_the_older_one_is_shown(slow: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LOOK_SECONDS", 0.2)
    slow.set()
    shown = Sources()
    (before,) = shown.look(["a"])
    assert before.status is not None
    slow.clear()
    time.sleep(sources.LOOK_SECONDS)
    began = time.monotonic()
    assert shown.look(["a"])[0].status is before.status
    assert time.monotonic() - began < 10
    slow.set()


def test_the_first_look_is_waited_for_but_not_for_ever(slow: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "FIRST_SECONDS", 0.3)
    assert "not at its end" in str(Sources().look(["a"])[0].problem)
    monkeypatch.setattr(sources, "FIRST_SECONDS", 30.0)
    threading.Timer(0.3, slow.set).start()
    assert Sources().look(["a"])[0].status is not None


def test_a_source_whose_first_look_takes_long_does_not_keep_the_others_from_being_shown(
    slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connection(conn_id: str) -> SourceCluster:
        if conn_id != "silent":
            raise SourceError(f"connection {conn_id!r}: wal_root is missing")
        return SourceCluster(quorum="zk", wal_root="file:///x")

    monkeypatch.setattr(sources, "OTHERS_SECONDS", 0.2)
    shown, began = Sources(connection), time.monotonic()
    silent, other = shown.look(["silent", "other"])
    assert time.monotonic() - began < sources.FIRST_SECONDS / 2
    assert "not at its end" in str(silent.problem)
    assert other.problem == "connection 'other': wal_root is missing"
    slow.set()
    silent, _ = shown.look(["silent", "other"])
    assert silent.status is not None
