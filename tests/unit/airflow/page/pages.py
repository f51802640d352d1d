"""A page on made-up sources, for tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from unittest.mock import patch

from fastapi import HTTPException, Request
from fastapi.testclient import TestClient
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from tests.unit.observe.status.views import HOUR, NOW, SERVER, peer, queue, view, wal
from walferry.airflow.page import forms, rendering
from walferry.airflow.page.app import make_app
from walferry.airflow.page.links import Links
from walferry.airflow.page.sources import ShownSource
from walferry.airflow.sources import own_name
from walferry.observe.status.ages import Certainty
from walferry.observe.status.describing import describe
from walferry.observe.status.history import INTERVAL_SECONDS, Sample
from walferry.observe.status.model import SourceStatus
from walferry.observe.status.peer_clusters import PeerClusterStatus

REACHED = {"p": PeerClusterStatus(True, None, NOW)}
BEHIND = queue(wal(NOW - 3 * HOUR, 100), wal(NOW - 2 * HOUR), wal(NOW - HOUR))
VOID = ("br", "input", "link", "meta", "line", "wbr")
LAST = NOW // 1000 // INTERVAL_SECONDS


def sample(ago: int, lag_ms: int | None = 60_000, shipped: int | None = 0, certainty: Certainty = Certainty.EXACT) -> Sample:
    """A sample of so many intervals ago."""
    return Sample(LAST - ago, lag_ms, certainty if lag_ms is not None else Certainty.UNKNOWN, 0, 0, shipped, 1)


def shown_source(status: SourceStatus, conn_id: str = "hbase_source", **fields: object) -> ShownSource:
    return ShownSource(conn_id, None, status, **fields)  # type: ignore[arg-type]


def behind() -> ShownSource:
    return shown_source(describe(view(BEHIND, peers=(peer(),)), peer_clusters=REACHED))


def checked(request: Request) -> str:
    """In place of Airflow's login and permissions. Returns who asks."""
    who = request.headers.get("who", "")
    if who not in ("viewer", "operator"):
        raise HTTPException(403 if who else 401)
    return who


class Compiled(BytecodeCache):
    """The compiled templates, for the next app."""

    def __init__(self) -> None:
        self._compiled: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._compiled:
            bucket.bytecode_from_string(self._compiled[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._compiled[bucket.key] = bucket.bytecode_to_string()


COMPILED = Compiled()


@contextmanager
def browser(*seen: ShownSource, who: str = "operator", dags: Collection[str] = (), docs: str = "") -> Iterator[TestClient]:
    """A client of the page that shows these sources. An operator may trigger `dags`, by default all of them."""
    by_name = {each.conn_id: each for each in seen}

    def may_see(request: Request) -> list[str]:
        checked(request)
        return list(by_name)

    def may_trigger(request: Request) -> frozenset[str]:
        those = dags or [own_name(dag, name) for dag in forms.DAGS for name in by_name]
        return frozenset(those if checked(request) == "operator" else ())

    with patch.object(rendering, "Environment", partial(Environment, bytecode_cache=COMPILED)):
        app = make_app(may_see, lambda names: [by_name[name] for name in names], may_trigger, Links("/airflow/", docs))
    with TestClient(app, headers={"who": who}, raise_server_exceptions=False) as client:
        yield client


@dataclass
class Parsed(HTMLParser):
    """What a page has: its texts, its elements, and the rows of tables."""

    texts: list[str] = field(default_factory=list)
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self._goes_on = False  # what follows belongs to the text before

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._goes_on = tag == "wbr"
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element, or none"

    def handle_data(self, data: str) -> None:
        if self._goes_on:
            self.texts[-1] += data
        else:
            self.texts.append(data)
        self._goes_on = False

    @property
    def text(self) -> str:
        """All that can be read, with single blanks."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of the elements of a kind."""
        return [attrs for name, attrs in self.elements if name == tag]


def parsed(html: str) -> Parsed:
    page = Parsed()
    page.feed(html)
    page.close()
    assert not page._open
    return page


def shown(*seen: ShownSource, query: str = "", who: str = "operator") -> Parsed:
    """The page that these sources make."""
    with browser(*seen, who=who) as client:
        answer = client.get(f"/replication{query}")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


__all__ = ["BEHIND", "LAST", "REACHED", "SERVER", "Parsed", "behind", "browser", "parsed", "sample", "shown", "shown_source"]
