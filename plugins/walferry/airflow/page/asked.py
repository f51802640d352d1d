"""Reads the viewer's choices from the page's address. Values that make no sense there are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlencode

MAX_CHARS = 300  # of a text value
SIZES = (25, 50, 100, 200)
MAX_PAGE = 1_000_000


class AskedKind(StrEnum):
    """The kinds of queues to choose from."""

    ANY = ""
    NORMAL = "normal"
    RECOVERED = "recovered"
    ORPHANED = "orphaned"


class Order(StrEnum):
    """The columns by which a table can be sorted."""

    LAG = "lag"
    LEFT = "left"
    SERVER = "server"


class AskedState(StrEnum):
    """The states of WAL groups to choose from."""

    ANY = ""
    FAILING = "failing"
    UNKNOWN = "unknown"
    WAITING = "waiting"
    SHIPPING = "shipping"
    UP_TO_DATE = "up-to-date"


E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True)
class Filters:
    """The viewer's choices. Empty texts choose everything."""

    source: str = ""
    peer: str = ""
    kind: AskedKind = AskedKind.ANY
    state: AskedState = AskedState.ANY
    text: str = ""
    order: Order = Order.LAG
    size: int = 50
    page: int = 1

    def query(self, **changes: Any) -> str:
        """Return the query of an address with the same choices but these changes. A change begins at the first page again."""
        changed = replace(self, **({"page": 1} | changes))
        reported = {each.name: getattr(changed, each.name) for each in fields(changed)}
        return "?" + urlencode({name: str(value) for name, value in reported.items() if value != getattr(_DEFAULT, name)})

    @property
    def filters(self) -> bool:
        """Return whether the choices exclude some queues."""
        return bool(self.peer or self.kind or self.state or self.text)


_DEFAULT = Filters()


def asked(params: Mapping[str, str]) -> Filters:
    """Read the parameters of an address."""
    return Filters(
        source=_text(params, "source"),
        peer=_text(params, "peer"),
        kind=_one_of(AskedKind, params.get("kind", ""), AskedKind.ANY),
        state=_one_of(AskedState, params.get("state", ""), AskedState.ANY),
        text=_text(params, "text").strip(),
        order=_one_of(Order, params.get("order", ""), Order.LAG),
        size=next((size for size in SIZES if str(size) == params.get("size")), _DEFAULT.size),
        page=_page(params.get("page", "")),
    )


def _text(params: Mapping[str, str], name: str) -> str:
    return params.get(name, "")[:MAX_CHARS]


def _one_of(kind: type[E], text: str, otherwise: E) -> E:
    return kind(text) if text in set(kind) else otherwise


def _page(text: str) -> int:
    return min(int(text), MAX_PAGE) if text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) else 1
