"""The page on region transitions names tests that exist, and each sentence of the notes there has one or says why not."""

from __future__ import annotations

import re

from tests.doc_tables import LIBRARY, ROOT, missing_tests, page, rows

SENTENCES, TESTS = page("region-transitions.md").partition("## The notes, sentence by sentence")[2].split("### The tests")


def test_each_test_that_the_page_names_is_there() -> None:
    listed = rows(TESTS)
    assert len(listed) > 40
    assert [row for row in listed if missing_tests(" ".join(row[1:]))] == []


def test_each_sentence_names_tests_of_the_list_and_files_that_are_there() -> None:
    names = {row[0] for row in rows(TESTS)}
    quoted = rows(SENTENCES)
    assert len(quoted) == 135
    for *_, files, tests in quoted:
        assert tests.startswith("none: ") or {re.sub(r" \(.*\)", "", each) for each in tests.split(", ")} <= names, tests
        for file in re.findall(r"[a-z_/]+\.py", files):
            assert any((folder / file).exists() for folder in (LIBRARY / "master", LIBRARY, ROOT)), file
