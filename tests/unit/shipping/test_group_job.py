"""How many senders each group of a job has."""

from __future__ import annotations

import pytest

from walferry.shipping.group_job import senders_of_each


@pytest.mark.parametrize(
    ("groups", "of_job", "senders"), [(1, 10, 10), (2, 10, 5), (4, 10, 2), (500, 10, 2), (1, 3, 3), (500, 3, 2), (5, 1, 1)]
)
def test_the_groups_of_a_job_share_its_senders_and_have_two_at_least(groups: int, of_job: int, senders: int) -> None:
    assert senders_of_each(groups, of_job) == senders
