"""Regions that were at several servers are shipped in stages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.growth import LINEAR, growth
from tests.unit.replay.wal_batches import stay, wal_batch
from walferry.replay.order import MAX_STAGES, Stages, TooManyStages, stages_of
from walferry.replay.scan import Stay


def stage_by_id(stages: Stages, region: int, ids: range) -> dict[int, int]:
    """The stage of each sequence id, and a check that each has exactly one."""
    w = wal_batch([(region, i) for i in ids])
    chosen = np.array([stages.entries_of(w, stage) for stage in range(10)])
    assert (chosen.sum(axis=0) == 1).all()
    return dict(zip(ids, chosen.argmax(axis=0).tolist(), strict=True))


def test_regions_that_stayed_need_one_stage():
    assert stages_of([("a", stay(1, 1, 9)), ("a", stay(1, 10, 20)), ("b", stay(2, 5, 6))]) == {}
    assert stage_by_id(Stages(), 1, range(3)) == {0: 0, 1: 0, 2: 0}
    assert Stages().needed == frozenset()


def test_a_region_that_moved_is_shipped_from_its_second_server_afterwards():
    found = stages_of([("b", stay(1, 10, 19)), ("a", stay(1, 1, 9)), ("b", stay(2, 1, 99))])
    assert set(stage_by_id(found["a"], 1, range(1, 10)).values()) == {0}
    assert set(stage_by_id(found["b"], 1, range(10, 20)).values()) == {1}
    assert set(stage_by_id(found["b"], 2, range(1, 99)).values()) == {0}
    assert found["b"].needed == {1}


@pytest.mark.parametrize("stays", [[stay(1, 1, 9), stay(1, 20, 29)], [stay(1, 1, 29)]], ids=["two stays", "read as one"])
def test_a_region_that_came_back_has_a_third_stage(stays: list[Stay]):
    found = stages_of([*(("a", each) for each in stays), ("b", stay(1, 10, 19))])
    of_a = stage_by_id(found["a"], 1, range(1, 30))
    assert {of_a[i] for i in range(1, 10)} == {0}
    assert {of_a[i] for i in range(20, 30)} == {2}
    assert found["b"].needed == {1}


def test_two_regions_that_changed_places_are_both_in_order():
    found = stages_of([("a", stay(1, 1, 9)), ("b", stay(1, 10, 19)), ("b", stay(2, 1, 9)), ("a", stay(2, 10, 19))])
    assert found["a"].needed == found["b"].needed == {0, 1}
    assert set(stage_by_id(found["a"], 2, range(10, 20)).values()) == {1}
    assert set(stage_by_id(found["b"], 2, range(1, 10)).values()) == {0}


@pytest.mark.slow
def test_a_region_that_is_moved_to_and_fro_all_the_time_is_refused_in_a_time_in_proportion():
    def moved(times: int) -> list[tuple[str, Stay]]:
        return [("ab"[i % 2], stay(1, 10 * i, 10 * i + 5)) for i in range(times)]

    def staged(times: int) -> Callable[[], None]:
        stays = moved(times)

        def stage() -> None:
            with pytest.raises(TooManyStages, match=f"{times:,} times"):
                stages_of(stays)

        return stage

    assert growth(staged, 100_000) < LINEAR
    assert max(stages_of(moved(MAX_STAGES))["b"].needed) == MAX_STAGES - 1
