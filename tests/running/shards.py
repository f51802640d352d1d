"""Parts of the tests that take equally long: `SHARD=2/4 make test-all` runs the second of four.

Files are dealt out as measured (durations.py), the longest first, each to the part that has least so far. So each file is in just
one part, whoever deals.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Mapping, Sequence

import pytest

from tests.running.durations import file_of, seconds_of

SHARD = "SHARD"  # the variable: which part, and of how many


def deal(seconds: Mapping[str, float], count: int) -> list[list[str]]:
    """Deal the files out to `count` parts. Within a part they keep their order in `seconds`."""
    place = {file: n for n, file in enumerate(seconds)}
    loads = [(0.0, part) for part in range(count)]
    parts: list[list[str]] = [[] for _ in range(count)]
    for file in sorted(seconds, key=lambda file: (-seconds[file], file)):
        load, part = heapq.heappop(loads)
        parts[part].append(file)
        heapq.heappush(loads, (load + seconds[file], part))
    return [sorted(part, key=place.__getitem__) for part in parts]


def shard_of_run() -> tuple[int, int] | None:
    """Return which part this run is, from 1, and of how many; None if it has all. Raises UsageError."""
    text = os.environ.get(SHARD, "")
    if not text:
        return None
    found = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text)
    if found is None or int(found[1]) > int(found[2]):
        raise pytest.UsageError(f"{SHARD}={text!r} is no part of the tests: write it as 2/4, the second of four")
    return int(found[1]), int(found[2])


def of_shard(items: Sequence[pytest.Item], shard: tuple[int, int]) -> list[pytest.Item]:
    """Return the tests of one part."""
    files = list(dict.fromkeys(file_of(item.nodeid) for item in items))
    part, count = shard
    mine = set(deal(seconds_of(files), count)[part - 1])
    return [item for item in items if file_of(item.nodeid) in mine]
