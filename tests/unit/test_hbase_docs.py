"""The pages on HBase's documentation and its tests name files and tests that are there, for each sentence and each case."""

from __future__ import annotations

import re

from tests.doc_tables import LIBRARY, missing_tests, page, rows

SENTENCES = rows(page("hbase-docs.md"))
CASES = page("hbase-test-cases.md")


def test_each_sentence_stands_once_with_its_file_and_its_test() -> None:
    assert len(SENTENCES) >= 45
    assert len({row[0] for row in SENTENCES}) == len(SENTENCES)
    for _, files, *_ in SENTENCES:
        named = re.findall(r"[a-z_0-9/]+\.py", files)
        assert named or files.startswith("none: "), files
        assert [file for file in named if not (LIBRARY / file).exists()] == []


def test_each_test_that_it_names_is_there() -> None:
    for _, files, *tests in SENTENCES:
        assert tests or files.startswith("none: "), files
        assert missing_tests(" ".join(tests)) == []


def test_each_test_that_does_what_one_of_hbase_s_does_is_there() -> None:
    assert len(rows(CASES)) >= 25
    for section in CASES.split("\n## ")[1:]:
        before = re.search(r"(?m)^All in (`.*?`)", section)
        for case, *cells in rows(section):
            assert missing_tests(" ".join([before[1] if before else "", *cells])) == [], case
