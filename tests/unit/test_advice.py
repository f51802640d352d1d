"""What errors, findings and helps advise is there: commands with their options, and pages of the documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.command_words import wrong_with

ROOT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"`walferry ([^`]+)`")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md")


def texts() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each string of the library. A value that is filled in is a word."""
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                yield place, "".join(str(each.value) if isinstance(each, ast.Constant) else "x" for each in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield place, node.value


def test_commands_that_are_advised_are_there_with_their_options() -> None:
    found = [(place, each) for place, text in texts() for each in COMMAND.findall(text)]
    assert len(found) > 40
    assert [f"{place}: {wrong}" for place, each in found if (wrong := wrong_with(each)) is not None] == []


def test_pages_that_are_named_are_there() -> None:
    found = {(place, name) for place, text in texts() for name in PAGE.findall(text)}
    assert len(found) > 5
    assert [each for each in found if not (ROOT / each[1]).is_file()] == []
