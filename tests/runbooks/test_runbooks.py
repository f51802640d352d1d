"""All runbooks and the tutorial are carried out as written, on real clusters. `python -m tests.runbooks NAME` does one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runbooks.carrying_out import carry_out
from tests.runbooks.first_hour import first_hour
from tests.runbooks.reading import TUTORIAL, names
from tests.runbooks.worlds import REGIONS, Demo, hbase_1, running_demo

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("demo")) as running:
        yield running


@pytest.mark.parametrize("name", [name for name in names() if name != REGIONS])
def test_a_runbook_does_what_it_says(name: str, demo: Demo) -> None:
    carry_out(name, demo, print)


def test_the_tutorial_leads_to_shipped_edits(tmp_path: Path) -> None:
    with first_hour(tmp_path) as clusters:
        carry_out(TUTORIAL, clusters, print)


def test_stuck_regions_of_hbase_1_are_opened_as_their_runbook_says(tmp_path: Path) -> None:
    with hbase_1(tmp_path) as cluster:
        carry_out(REGIONS, cluster, print)
