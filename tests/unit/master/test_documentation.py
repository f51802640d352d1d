"""The page on region transitions names tests that exist, and each sentence of the notes there has one or says why not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "region-transitions.md").read_text().partition("## The notes, sentence by sentence")[2]
SENTENCES, TESTS = PAGE.split("### The tests")


def rows(text: str) -> list[list[str]]:
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [cells for cells in lines if cells[0] not in ("sentence", "name")]


def test_each_test_that_the_page_names_is_there() -> None:
    listed = rows(TESTS)
    assert len(listed) > 40
    for _, file, test in listed:
        text = (ROOT / file.strip("`")).read_text()
        assert test == "all" or f"def {test.strip('`')}(" in text, (file, test)


def test_each_sentence_names_tests_of_the_list_and_files_that_are_there() -> None:
    names = {row[0] for row in rows(TESTS)}
    quoted = rows(SENTENCES)
    assert len(quoted) == 135
    for *_, files, tests in quoted:
        assert tests.startswith("none: ") or {re.sub(r" \(.*\)", "", each) for each in tests.split(", ")} <= names, tests
        for file in re.findall(r"[a-z_/]+\.py", files):
            assert any((ROOT / "plugins/walferry" / folder / file).exists() for folder in ("master", "")), file
