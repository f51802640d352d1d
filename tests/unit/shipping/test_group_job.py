"""How many lanes each group of a job has."""

from __future__ import annotations

import pytest

from walferry.shipping.group_job import lanes_of_each


@pytest.mark.parametrize(
    ("groups", "of_job", "lanes"), [(1, 10, 10), (2, 10, 5), (4, 10, 2), (500, 10, 2), (1, 3, 3), (500, 3, 2), (5, 1, 1)]
)
def test_the_groups_of_a_job_share_its_lanes_and_have_two_at_least(groups: int, of_job: int, lanes: int) -> None:
    assert lanes_of_each(groups, of_job) == lanes
