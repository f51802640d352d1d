"""Links on tasks: where they lead, and which addresses are none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from walferry.airflow.operators.links import ReplicationLink, SparkLink, page_of, web_address

GOOD = ["http://spark:8080", "https://history.example.org/app", "http://[::1]:18080/x?y=1#z"]
BAD = [
    "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//evil.example.org", "spark:8080", "http://", "http:///x",
    "http://me:secret@spark", "http://spark:0", "http://spark:99999", "http://[::1", "http://a b", "http://a\nb", "http://ä",
    "http://a/" + "x" * 3000, "", None, 5, ["http://spark"],
]  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_an_address_of_the_web_is_linked(text: str) -> None:
    assert web_address(text) == text


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text)[:30])
def test_nothing_else_is(text: object) -> None:
    assert web_address(text) == ""


def test_names_from_outside_cannot_leave_the_page() -> None:
    address = page_of("hbase_source", 'p"&peer=x#//<b>%2C1')
    assert address == ("/plugin/walferry/walferry/replication?source=hbase_source&peer=p%22%26peer%3Dx%23%2F%2F%3Cb%3E%252C1")


def test_a_link_to_the_page_keeps_airflow_s_own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/team/")
    assert page_of("s", "p").startswith("/team/plugin/walferry/walferry/replication?")


def link(kind: Any, **operator: Any) -> str:
    return str(kind().get_link(SimpleNamespace(**operator), ti_key=None))


def test_a_task_that_has_not_come_to_know_its_peer_has_no_link() -> None:
    assert link(ReplicationLink) == link(ReplicationLink, shown={}) == ""
    assert link(ReplicationLink, shown={"source": "s", "peer": "p"}).endswith("?source=s&peer=p")


@pytest.mark.parametrize(("ui", "expected"), [("http://spark:8080", "http://spark:8080"), ("javascript:x", ""), ("", "")])
def test_spark_is_linked_if_its_connection_says_where_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, ui: str, expected: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", f'{{"conn_type": "spark", "host": "local", "extra": {{"ui": "{ui}"}}}}')
    assert link(SparkLink, ran_through="spark_here") == expected


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text)[:30])
def test_an_application_on_yarn_is_linked_unless_the_connection_says_better(
    monkeypatch: pytest.MonkeyPatch, text: object
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", '{"conn_type": "spark", "host": "yarn", "extra": {"ui": "http://spark:8080"}}')
    application = "http://rm:8088/proxy/application_1_0001/"
    assert link(SparkLink, ran_through="spark_here", tracked=application) == "http://spark:8080"
    assert link(SparkLink, ran_through="not_there", tracked=application) == application
    assert link(SparkLink, ran_through="not_there", tracked=text) == ""


def test_no_job_or_no_connection_gives_no_link() -> None:
    assert link(SparkLink) == link(SparkLink, ran_through="") == link(SparkLink, ran_through="not_there") == ""
