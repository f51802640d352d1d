"""The page on HBase's documentation names files and tests that are there, for each sentence."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    line.strip("| ").split(" | ")
    for line in (ROOT / "docs/hbase-docs.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| sentence")
]


def test_each_sentence_stands_once_with_its_file_and_its_test() -> None:
    assert len(ROWS) >= 45
    assert len({row[0] for row in ROWS}) == len(ROWS)
    for _, files, *_ in ROWS:
        named = re.findall(r"[a-z_0-9/]+\.py", files)
        assert named or files.startswith("none: "), files
        assert [file for file in named if not (ROOT / "plugins/walferry" / file).exists()] == []


def test_each_test_that_it_names_is_there() -> None:
    for _, files, *tests in ROWS:
        assert tests or files.startswith("none: "), files
        for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", " ".join(tests)):
            assert f"def {test}(" in (ROOT / file).read_text(), (file, test)
