"""A backend of jobs whose tasks are threads of this process, for tests. Results travel as JSON, as they do between processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from walferry.base.jobs import Progress
from walferry.base.records import Record

R = TypeVar("R", bound=Record)


def side_by_side(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function for each item, four at a time."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(function, items))


class Threads:
    """The backend. `order` calls a function for each item."""

    cores = most_tasks = 4
    least_bytes = 0

    def __init__(self, order: Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]] = side_by_side) -> None:
        self._order = order

    def run(
        self, function: Callable[[Any], R], items: Sequence[Any], result: type[R], lost: Callable[[Any, str], R] | None = None,
        progress: Progress | None = None,
    ) -> list[R]:  # fmt: skip
        ended = itertools.count(1)

        def run(item: Any) -> R:
            found = function(item)
            if progress is not None:
                progress(next(ended), len(items))
            return found

        return [result.from_json(found.to_json()) for found in self._order(run, items)]
