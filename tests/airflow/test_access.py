"""The replication page as Airflow's own api server mounts it: its login, its permissions and its connections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

SECRET = "geheim-4711"


@pytest.fixture(scope="module")
def app(airflow_db: None) -> Iterator[Any]:
    """Airflow's app, with a connection in its database that leads nowhere."""
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from airflow.models.connection import Connection
    from airflow.sdk.execution_time import task_runner
    from airflow.utils.session import create_session

    conn = Connection("hbase_source", conn_type="generic", host="127.0.0.1", port=1, password=SECRET)
    conn.extra = '{"wal_root": "file:///hbase"}'
    with create_session() as session, pytest.MonkeyPatch.context() as patch:
        patch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")  # as `airflow api-server` sets it
        patch.setattr(task_runner, "SUPERVISOR_COMMS", None, raising=False)  # tests that ran a DAG here may have left it
        patch.delenv("AIRFLOW_CONN_HBASE_SOURCE", raising=False)
        session.add(conn)
        session.commit()
        yield create_app(apps="core")
        session.delete(conn)
    purge_cached_app()


@pytest.fixture
def browser(app: Any) -> Callable[[str | None], Any]:
    """`browser(role)`: a client with the cookie of a user who has this role in Airflow; without a cookie for None."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    def client(role: str | None) -> TestClient:
        made = TestClient(app, base_url="http://airflow", raise_server_exceptions=False)
        if role is not None:
            made.cookies["_token"] = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="someone", role=role or None))
        return made

    return client


ROUTES = ["/walferry/replication", "/walferry/content", "/walferry/static/page.js"]


@pytest.mark.parametrize("route", ROUTES)
def test_a_stranger_is_sent_to_the_login(browser: Callable[[str | None], Any], route: str) -> None:
    answer = browser(None).get(route)
    assert answer.status_code == 401
    assert "/api/v2/auth/login?next=%2Fplugin%2Fwalferry" in answer.text
    forged = browser(None)
    forged.cookies["_token"] = "a.b.c"
    assert forged.get(route).status_code in (401, 403)


@pytest.mark.parametrize("route", ROUTES)
def test_a_user_without_a_role_reads_nothing(browser: Callable[[str | None], Any], route: str) -> None:
    assert browser("").get(route).status_code == 403


@pytest.mark.parametrize("role", ["viewer", "op"])
def test_viewers_and_operators_read_it_and_see_no_secret(browser: Callable[[str | None], Any], role: str) -> None:
    answer = browser(role).get("/walferry/replication")
    assert answer.status_code == 200
    assert "Unreachable, so lag is unknown" in answer.text
    assert "127.0.0.1:1" in answer.text
    assert SECRET not in answer.text
    assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("role", ["viewer", "op", "admin"])
def test_nobody_can_change_anything_there(browser: Callable[[str | None], Any], role: str) -> None:
    assert {browser(role).post(route).status_code for route in ROUTES} == {405}


def test_a_right_that_is_given_by_dag_is_asked_for(browser: Callable[[str | None], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    asked = []

    def refuse(**of: Any) -> bool:
        asked.append((of["method"], of["details"].id))
        return False

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", refuse)
    assert browser("admin").get("/walferry/content").status_code == 403
    assert asked == [("GET", "replicate_peer")]


def test_a_user_sees_the_sources_whose_runs_the_user_may_read(
    browser: Callable[[str | None], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    monkeypatch.setenv("AIRFLOW__WALFERRY__SOURCES", "hbase_source,west,east,zk1:2181")
    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", lambda **of: of["details"].id.endswith(("-west", "-east")))
    answer = browser("admin").get("/walferry/content")
    assert answer.status_code == 200
    assert re.findall(r"connection &#39;(\w+)&#39; is not defined", answer.text) == ["west", "east"]
    assert not re.search(r"(<bdi>|&#39;)hbase_source\b", answer.text)  # it is also the name of the connection type
    monkeypatch.setenv("AIRFLOW__WALFERRY__SOURCES", "hbase_source")
    assert browser("admin").get("/walferry/content").status_code == 403


def test_a_page_without_sources_says_where_they_are_named(
    browser: Callable[[str | None], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__WALFERRY__SOURCES", "zk1:2181")
    answer = browser("viewer").get("/walferry/content")
    assert answer.status_code == 200
    assert "names no source that can be shown" in answer.text
    assert browser("").get("/walferry/content").status_code == 403


def test_airflow_s_navigation_has_it(browser: Callable[[str | None], Any]) -> None:
    plugins = browser("viewer").get("/api/v2/plugins").json()["plugins"]
    (view,) = [view for plugin in plugins for view in plugin["external_views"] if plugin["name"] == "walferry"]
    assert (view["name"], view["destination"], view["nav_top_level"]) == ("Replication", "nav", True)
    for shown in (view["href"], view["icon"], view["icon_dark_mode"]):
        assert not shown.startswith(("/", "http"))
        assert browser("viewer").get(f"/{shown}").status_code == 200
