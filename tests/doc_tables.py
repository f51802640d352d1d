"""Reads tables of the documentation."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "plugins/walferry"


def rows(markdown: str) -> list[list[str]]:
    """Return the cells of all rows of the tables in a text, without the tables' heads."""
    lines = markdown.splitlines()
    heads = {line for line, below in pairwise(lines) if below.startswith("|---")}
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and line not in heads]


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / "docs" / name).read_text()


def missing_tests(reported: str) -> list[str]:
    """Return the files and tests that a text names and that do not exist.

    A test is in the file that is named before it, and a file without its folder in tests/cluster.
    """
    missing, text = [], ""
    for name in re.findall(r"\w[\w/]*\.py|\btest_\w+", reported):
        if name.endswith(".py"):
            file = ROOT / name if "/" in name else ROOT / "tests/cluster" / name
            text = file.read_text() if file.exists() else ""
            missing += [] if text else [name]
        elif f"def {name}(" not in text:
            missing.append(name)
    return missing
