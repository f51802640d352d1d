"""The page's routes: who may read them, and what their answers carry."""

from __future__ import annotations

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from tests.unit.airflow.page.pages import behind, browser, parsed
from walferry.airflow.page.app import HEADERS, make_app
from walferry.airflow.page.links import Links
from walferry.airflow.page.sources import ShownSource

ROUTES = ["/replication", "/content", "/static/page.css", "/static/page.js", "/static/icon.svg"]


@pytest.mark.parametrize("route", ROUTES)
def test_a_stranger_reads_nothing(route: str) -> None:
    with browser(behind(), who="") as client:
        answer = client.get(route)
    assert answer.status_code == 401
    assert "hbase_source" not in answer.text
    (login,) = parsed(answer.text).all("a")
    assert login == {"href": "/airflow/api/v2/auth/login?next=%2Fairflow%2Fplugin%2Fwalferry"}


def test_who_has_to_log_in_again_in_airflow_s_frame_comes_back_to_the_page_in_it() -> None:
    with browser(behind(), who="") as client:
        answer = client.get("/replication", headers={"Sec-Fetch-Dest": "iframe"})
    (login,) = parsed(answer.text).all("a")
    assert login == {"href": "/airflow/api/v2/auth/login?next=%2Fairflow%2Fwalferry%2Freplication"}


@pytest.mark.parametrize("route", ROUTES)
def test_a_user_without_the_permission_reads_nothing(route: str) -> None:
    with browser(behind(), who="guest") as client:
        answer = client.get(route)
    assert answer.status_code == 403
    assert "hbase_source" not in answer.text


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("who", ["", "viewer", "operator"])
def test_every_answer_has_the_headers_that_keep_strangers_scripts_and_frames_out(route: str, who: str) -> None:
    with browser(behind(), who=who) as client:
        answer = client.get(route)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_route_changes_anything(route: str, method: str) -> None:
    with browser(behind()) as client:
        assert client.request(method, route).status_code == 405


@pytest.mark.parametrize("name", ["app.py", "..%2Fapp.py", "%2e%2e/app.py", "page.html", "", "%00"])
def test_only_the_static_files_are_served(name: str) -> None:
    with browser(behind()) as client:
        assert client.get(f"/static/{name}").status_code == 404


def test_an_error_of_the_page_shows_no_traceback() -> None:
    def broken(names: object) -> list[ShownSource]:
        raise RuntimeError("secret")

    app = make_app(lambda: ["a"], broken, lambda: frozenset(), Links("/"))
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.get("/replication")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_the_part_that_is_refreshed_is_the_one_that_the_page_has() -> None:
    with browser(behind()) as client:
        page, part = client.get("/replication?kind=normal").text, client.get("/content?kind=normal").text
    assert part in page
    assert "<html" not in part


def test_who_may_read_is_asked_before_anything_is_looked_at() -> None:
    def refused() -> list[str]:
        raise HTTPException(403)

    def look(names: object) -> list[ShownSource]:
        raise AssertionError("a source was looked at")

    app = make_app(refused, look, lambda: frozenset(), Links("/"))
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/replication").status_code == 403
