"""The rows of the table of queues, one for each WAL group: filtered, sorted, and cut into pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from walferry.airflow.page.asked import AskedKind, AskedState, Filters, Order
from walferry.airflow.page.peers import ERROR, WARNING, Badge, badge_of_group, longest_first
from walferry.observe.status import model
from walferry.observe.status.ages import unknown
from walferry.observe.status.model import GroupStatus, QueueStatus, SourceStatus

_NO_GROUP = unknown("the queue has no WALs that can be read")


@dataclass(frozen=True)
class GroupRow:
    """A WAL group in a queue. A queue without WAL groups also has one row."""

    queue: QueueStatus
    group: GroupStatus | None
    orphaned: bool  # its peer does not exist

    @property
    def badge(self) -> Badge:
        """The group's condition in a word."""
        if self.orphaned:
            return Badge("Orphaned", ERROR)
        if self.group is None:
            return Badge("Odd", WARNING) if self.queue.problems else Badge("Empty", "neutral")
        return badge_of_group(self.group)


@dataclass(frozen=True)
class Page:
    """One page of the rows that the viewer chose."""

    rows: tuple[GroupRow, ...]
    number: int
    pages: int
    found: int  # rows on all pages
    of: int  # rows without filters
    first: int  # the number of the page's first row among the rows that were found


def rows_of(status: SourceStatus) -> list[GroupRow]:
    """Return all rows of a source."""
    owned = [queue for peer in status.peers or () for queue in peer.queues or ()]
    return [*_rows(owned, orphaned=False), *_rows(status.orphaned or (), orphaned=True)]


def page_of(rows: Sequence[GroupRow], asked: Filters) -> Page:
    """Return the page that the viewer chose, or the last page if there are fewer."""
    found = sorted((row for row in rows if _fits(row, asked)), key=_KEYS[asked.order])
    pages = max(1, -(-len(found) // asked.size))
    number = min(asked.page, pages)
    shown = found[(number - 1) * asked.size : number * asked.size]
    return Page(tuple(shown), number, pages, len(found), len(rows), (number - 1) * asked.size + 1 if found else 0)


def _rows(queues: Iterable[QueueStatus], *, orphaned: bool) -> Iterable[GroupRow]:
    for queue in queues:
        for group in queue.groups or (None,):
            yield GroupRow(queue, group, orphaned)


def _fits(row: GroupRow, asked: Filters) -> bool:
    return (
        (not asked.peer or row.queue.peer_id == asked.peer)
        and _is_of_kind(row, asked.kind)
        and (not asked.state or asked.state in _states(row))
        and (not asked.text or asked.text.lower() in _searched(row))
    )


def _is_of_kind(row: GroupRow, kind: AskedKind) -> bool:
    if kind is AskedKind.ORPHANED:
        return row.orphaned
    return not kind or row.queue.kind is (model.LagKind.NORMAL if kind is AskedKind.NORMAL else model.LagKind.RECOVERED)


def _states(row: GroupRow) -> set[AskedState]:
    group = row.group
    if group is None:
        return {AskedState.UNKNOWN} if row.queue.problems else set()
    facts = {
        AskedState.FAILING: group.failing_since_ms is not None,
        AskedState.UNKNOWN: group.replicationLag.ms is None or group.oldest.problem is not None,
        AskedState.WAITING: group.holder is None and not group.replicationLag.nothing_waits,
        AskedState.SHIPPING: group.holder is not None,
        AskedState.UP_TO_DATE: group.replicationLag.nothing_waits,
    }
    return {state for state, applies in facts.items() if applies}


def _searched(row: GroupRow) -> str:
    names = [row.queue.peer_id, row.queue.server, row.queue.queue_id]
    if row.group is not None:
        names += [row.group.group, row.group.writer or "", row.group.oldest.name, row.group.error or ""]
    return "\n".join(names).lower()


def _names(row: GroupRow) -> tuple[str, ...]:
    return row.queue.server, row.queue.queue_id, row.group.group if row.group else ""


def _by_lag(row: GroupRow) -> tuple[Any, ...]:
    return longest_first(row.group.replicationLag if row.group else _NO_GROUP), _names(row)


def _by_left(row: GroupRow) -> tuple[Any, ...]:
    left = row.group.bytes_left if row.group else None
    return (0, 0) if left is None else (1, -left.known), -(row.group.wals_left if row.group else 0), _names(row)


_KEYS = {Order.LAG: _by_lag, Order.LEFT: _by_left, Order.SERVER: _names}
