"""Which cluster a command is for."""

from __future__ import annotations

import json
import os

import pytest

from walferry.cli import source
from walferry.cli.source import Chosen
from walferry.replication.source.cluster import SourceError

SOURCE = {"host": "zk1", "extra": {"wal_root": "file:///hbase"}}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_the_source_is_what_the_command_says_and_then_what_the_environment_says(environment: pytest.MonkeyPatch) -> None:
    assert not Chosen().given
    with pytest.raises(SourceError, match="AIRFLOW_CONN_HBASE_SOURCE is not set"):
        Chosen().read()
    environment.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(SOURCE))
    environment.setenv("AIRFLOW_CONN_OTHER", json.dumps({**SOURCE, "host": "zk2"}))
    assert Chosen().given
    assert Chosen().read().quorum == "zk1:2181"
    assert Chosen(conn_id="other").read().quorum == "zk2:2181"
    assert Chosen(json.dumps({**SOURCE, "host": "zk3"})).read().quorum == "zk3:2181"


def test_where_there_is_no_airflow_the_variable_of_a_connection_is_named(environment: pytest.MonkeyPatch) -> None:
    environment.setattr(source, "find_spec", lambda name: None)
    with pytest.raises(SourceError, match=r"'west' is not defined: AIRFLOW_CONN_WEST is not set, and no Airflow is installed"):
        Chosen(conn_id="west").read()


@pytest.mark.parametrize(
    "text",
    ['{"host": "zk1"', '{"conn_type": "mysql"}', '{"host": "zk1", "extra": {"wal_rot": "x"}}', "hbase://a:x@b@c", '{"extra": 1}',
     '{"host": "zk 1", "extra": {"wal_root": "file:///hbase"}}'],
)  # fmt: skip
def test_an_error_of_source_is_not_blamed_on_a_connection_that_nobody_named(text: str) -> None:
    with pytest.raises(SourceError, match=r"^the connection in --source") as error:
        Chosen(text).read()
    assert "hbase_source'" not in str(error.value)
