"""How far a load is, in words."""

from __future__ import annotations

import pytest

from walferry.shipping.bulkload import load_progress
from walferry.shipping.bulkload.load_progress import LoadProgress, shown


@pytest.mark.parametrize(
    ("stages", "text"),
    [
        ([], ""),
        ([(0, 0)], ""),
        ([(0, 1200), (0, 8)], "read 0 of 1,200 parts of the WALs"),
        ([(1200, 1200)], "read 1,200 of 1,200 parts of the WALs"),
        ([(4, 4), (3, 8)], "read 4 of 4 parts of the WALs, loaded 3 of 8 partitions of the regions"),
        ([(3, 4), (3, 8)], "read 3 of 4 parts of the WALs"),  # some are read again, as an executor was lost
    ],
)
def test_loading_is_told_of_once_all_is_read(stages: list[tuple[int, int]], text: str) -> None:
    assert shown(stages) == text


def test_only_what_has_changed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_progress, "EVERY_SECONDS", 0.0)
    told: list[str] = []
    progress = LoadProgress(told.append)
    for done in (0, 0, 1, 1):
        progress([(done, 2), (0, 2)])
    assert told == ["read 0 of 2 parts of the WALs", "read 1 of 2 parts of the WALs"]


def test_not_every_change_is_told() -> None:
    told: list[str] = []
    progress = LoadProgress(told.append)
    for done in range(1000):
        progress([(done, 1000)])
    assert told == ["read 0 of 1,000 parts of the WALs"]
