"""Thousands of broken files cause no crash and no hang, and everything before the damage is right."""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest

from tests.unit.hbase.wal.fuzzing import fuzz

SOAKED = 240_000


@pytest.mark.long
@pytest.mark.parametrize(("seed", "files"), [(1, 200), pytest.param(2, 2400, marks=pytest.mark.slow)])
def test_broken_files_are_read_as_far_as_they_are_sound(seed: int, files: int) -> None:
    count, failed = fuzz(seed, files)
    assert count // 10 < failed < count


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_very_many_broken_files_are_read_as_far_as_they_are_sound() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(partial(fuzz, count=SOAKED // 24), range(100, 124)))
    count, failed = (sum(figures) for figures in zip(*results, strict=True))
    print(f"{count:,} broken files, {failed:,} of them ended with an error")
    assert count == SOAKED
    assert count // 10 < failed < count
