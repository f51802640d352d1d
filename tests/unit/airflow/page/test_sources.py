"""What the page says of a source that it cannot look at."""

from __future__ import annotations

import pytest

from walferry.airflow.page import sources
from walferry.airflow.page.sources import Sources, without_secrets
from walferry.source.cluster import SourceError


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
    shown = Sources()
    assert shown.look("a").problem == "connection 'a': wal_root is missing"
    assert "geheim" not in str(shown.look("b").problem)
