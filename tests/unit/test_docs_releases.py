"""The releases of HBase that the documentation calls tested are those that tests run."""

from __future__ import annotations

from embedded.jars import HBASE_1_VERSION, HBASE_VERSION, OTHER_RELEASES
from tests.doc_tables import page, rows
from walferry.admin.diagnosis.source import TESTED

UNTESTED = {"–", "none", "source, by hand", "peer cluster, by hand", "both, by hand"}


def test_the_releases_with_tested_cells_are_those_that_tests_run_and_that_check_calls_tested() -> None:
    section = page("install.md").partition("## Releases of HBase")[2].partition("\n## ")[0]
    head = next(line for line in section.splitlines() if line.startswith("| | "))
    releases = [cell.split()[0] for cell in head.strip("| ").split(" | ")]
    of_capabilities = [row[1:] for row in rows(section)]
    assert {len(cells) for cells in of_capabilities} == {len(releases)}
    tested = {release for cells in of_capabilities for release, cell in zip(releases, cells, strict=True) if cell not in UNTESTED}
    run = [HBASE_VERSION, HBASE_1_VERSION, *(jars.title.removeprefix("HBase ") for jars in OTHER_RELEASES)]
    assert tested == set(TESTED) == {version.removesuffix("-hadoop3") for version in run}
