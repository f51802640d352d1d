"""Connections of Spark Connect servers: where the server is, and which connections are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from walferry.airflow.hooks.spark_connect import WalferryConnectHook
from walferry.jobs.connect.server import Address
from walferry.runs.airflow_connection import SparkConnectError

from .conftest import Run
from .connect_stubs import CONNECTION, TOKEN, Cluster, cluster, run

__all__ = ["cluster", "run"]  # fixtures


@pytest.mark.parametrize(
    ("changed", "address"),
    [
        ({"port": None}, Address("127.0.0.1", 15002, token=TOKEN)),
        ({"host": "sc://localhost", "login": "ops"}, Address("localhost", 15002, "ops", TOKEN)),
        ({"host": "spark.example.org", "extra": {"use_ssl": True}}, Address("spark.example.org", token=TOKEN, tls=True)),
        ({"host": "spark.example.org", "extra": {"use_ssl": "true"}}, Address("spark.example.org", token=TOKEN, tls=True)),
        ({"host": "spark.example.org", "password": None}, Address("spark.example.org")),
        ({"host": "::1"}, Address("::1", token=TOKEN)),
        ({"host": "[::1]"}, Address("[::1]", token=TOKEN)),
        ({"extra": {"tasks": 32}}, Address("127.0.0.1", token=TOKEN, tasks=32)),
    ],
)
def test_the_connection_says_where_the_server_is(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], address: Address
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", json.dumps({**CONNECTION, **changed}))
    assert WalferryConnectHook("spark_connect").address() == address


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"host": ""}, "connection 'spark_connect': its host must be"),
        ({"extra": {"tasks": 0}}, "`tasks` in its extra must be a number from 1 to 1000"),
        ({"extra": {"tasks": "many"}}, "`tasks` in its extra must be a number from 1 to 1000"),
        ({"host": f"sc://server:15002/;token={TOKEN};use_ssl=true"}, "its host must be just a server's name or address"),
        ({"host": f"127.0.0.1;token={TOKEN}"}, "The port and the token .the password. have fields of their own"),
        ({"host": "localhost:15002"}, "its host must be just a server's name or address"),
        ({"host": "ser ver"}, "its host must be just a server's name or address"),
        ({"host": "fe80::1%eth0"}, "its host must be just a server's name or address"),
        ({"password": f"{TOKEN}\n"}, "its password, the server's token, has a blank, a line break"),
        ({"password": f"{TOKEN}\u00e9"}, "a character that is not ASCII, and so cannot be sent"),
        ({"host": "spark.example.org"}, "the token would travel to spark.example.org:15002 unencrypted.*use_ssl"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_and_spark_submit_ships(
    run: Callable[..., Run], cluster: Cluster, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", json.dumps({**CONNECTION, **changed}))
    with pytest.raises(SparkConnectError, match=message) as refused:
        WalferryConnectHook("spark_connect").address()
    assert TOKEN not in str(refused.value)
    ended = run()
    assert ended.reports["p"]["by_spark_submit"] == str(refused.value)
    assert (cluster.through_server, len(cluster.submitted)) == ([], 1)


def test_without_a_connection_there_is_no_server(monkeypatch: pytest.MonkeyPatch, airflow_db: None) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_CONNECT", raising=False)
    assert WalferryConnectHook("spark_connect").address() is None
