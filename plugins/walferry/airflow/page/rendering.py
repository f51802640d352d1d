"""Turns the sources' statuses into HTML."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from walferry.airflow.page import asked, formats, forms
from walferry.airflow.page.asked import Filters
from walferry.airflow.page.links import Links
from walferry.airflow.page.peers import Badge, condition, worst_first
from walferry.airflow.page.plots import HEIGHT, WIDTH, Plot, plot_of
from walferry.airflow.page.rows import Page, page_of, rows_of
from walferry.airflow.page.sources import ShownSource
from walferry.airflow.sources import own_name
from walferry.base.amounts import count, duration, size
from walferry.base.findings import Finding
from walferry.base.texts import visible
from walferry.observe.status import words
from walferry.observe.status.findings import of_peer
from walferry.observe.status.model import PeerStatus
from walferry.replication.retention.survey import Fate

TEMPLATES = Path(__file__).parent / "templates"
MAX_NAME_CHARS = 200
OLD_SECONDS = 60.0  # a status is a few seconds old, unless ZooKeeper has fallen silent
MAX_PEERS = 30  # shown in full; the filter shows others
MAX_LISTED = 100  # of servers, regions, problems
MAX_QUEUES = 20  # of one peer that keep files in oldWALs
MAX_CHOICES = 500  # peers to choose from
REFUSALS = {
    401: "You are not logged in, or your login has expired.",
    403: "You may not see this page: it needs the right to read a source's DAG replicate_peer.",
    404: "There is no such page.",
    405: "This page can only be read.",
}
_PART_END = re.compile(r"[,/]|%2C(?=.)|\.(?=\d{13})")  # `escape` writes none of these characters
FAILED = "The page failed; the api server's log says why."


@dataclass(frozen=True)
class ShownPeer:
    """A peer with the values that are computed from it."""

    peer: PeerStatus
    badge: Badge
    findings: tuple[Finding, ...]
    plot: Plot | None
    forms: tuple[forms.Form, ...]


@dataclass(frozen=True)
class Section:
    """A source as it is shown."""

    shown_source: ShownSource
    chosen: bool  # its queues are shown
    old: float | None = None  # how old its status is in seconds, if it is older than it should be
    peers: tuple[ShownPeer, ...] = ()
    peers_left_out: int = 0
    page: Page | None = None


class Rendering:
    """Makes pages. `version` becomes a part of the addresses of style and script."""

    def __init__(self, links: Links, version: str) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )  # fmt: skip
        self._environment.filters.update(
            visible=lambda text, chars=MAX_NAME_CHARS: visible(str(text), chars), name=_name, key=_key, number="{:,}".format,
            counted=count, duration=duration, size=size, lag=formats.lag, left=words.left, rate=words.rate,
            moment=formats.moment, iso=formats.iso, of=own_name,
        )  # fmt: skip
        self._environment.globals.update(
            links=links,
            version=version,
            asked_for=asked,
            forms=forms,
            PLOT=(WIDTH, HEIGHT),
            HELD=Fate.HELD,
            MAX_LISTED=MAX_LISTED,
            MAX_QUEUES=MAX_QUEUES,
            MAX_CHOICES=MAX_CHOICES,
        )
        for name in self._environment.list_templates():
            self._environment.get_template(name)  # compiles it, so that the first viewer does not wait for that

    def page(self, seen: Sequence[ShownSource], wanted: Filters, may: frozenset[str], *, whole: bool) -> str:
        """Return the whole page, or the part that changes, with the forms of the DAGs that the viewer may trigger."""
        template = "page.html" if whole else "content.html"
        return self._render(template, sections=_sections(seen, wanted), asked=wanted, may=may)

    def refusal(self, status: int, *, framed: bool = False) -> str:
        """Return the page of an answer that refuses or fails."""
        return self._render("refusal.html", status=status, why=REFUSALS.get(status, FAILED), framed=framed)

    def _render(self, name: str, **values: Any) -> str:
        return self._environment.get_template(name).render(values)


def _name(text: str, chars: int = MAX_NAME_CHARS) -> Markup:
    """Return a long name as HTML text that a narrow column may break behind the name's parts."""
    return Markup(_PART_END.sub(r"\g<0><wbr>", str(escape(visible(str(text), chars)))))


def _key(text: str) -> str:
    """Return a part of an id: names may have characters that ids may not have."""
    return hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _sections(seen: Sequence[ShownSource], wanted: Filters) -> list[Section]:
    chosen = next((each.conn_id for each in seen if each.conn_id == wanted.source), seen[0].conn_id if seen else None)
    return [_section(each, wanted, chosen=each.conn_id == chosen) for each in seen]


def _section(shown_source: ShownSource, wanted: Filters, *, chosen: bool) -> Section:
    status = shown_source.status
    if status is None or status.unreachable is not None:
        return Section(shown_source, chosen)
    old = (shown_source.asked_ms - status.at_ms) / 1000
    peers = sorted((peer for peer in status.peers or () if not chosen or wanted.peer in ("", peer.id)), key=worst_first)
    return Section(
        shown_source,
        chosen,
        old if old > OLD_SECONDS else None,
        tuple(_shown(shown_source, peer, status.at_ms) for peer in peers[:MAX_PEERS]),
        len(peers[MAX_PEERS:]),
        page_of(rows_of(status), wanted) if chosen else None,
    )


def _shown(shown_source: ShownSource, peer: PeerStatus, at_ms: int) -> ShownPeer:
    offered = [forms.ship(shown_source.conn_id, peer)] if peer.managed else []
    again = forms.backfill(shown_source.conn_id, peer, at_ms)
    plot = plot_of(shown_source.histories.get(peer.id, ()), at_ms / 1000, peer.max_lag)
    return ShownPeer(peer, condition(peer), tuple(of_peer(peer)), plot, tuple([*offered, again] if again else offered))
