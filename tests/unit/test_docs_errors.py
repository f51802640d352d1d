"""docs/errors.md has each kind of error, and its texts are those of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
LIBRARY = [path for path in sorted((REPO / "plugins/walferry").rglob("*.py")) if "_pb2" not in path.name]
PAGE = (REPO / "docs/errors.md").read_text()
HEADINGS = re.findall(r"(?m)^### (.+)$", PAGE)
OTHERS = {"AccessDeniedException", "Failed to copy HFiles"}  # of HBase's servers


def literals(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, each with … where a value is put in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def texts() -> str:
    return "\n".join(text for path in LIBRARY for text in literals(ast.parse(path.read_text())))


def subclasses(root: str) -> set[str]:
    """The names of all classes that are derived from `root`, as far as they have names for others."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for path in LIBRARY
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    found, before = {root}, set[str]()
    while found != before:
        before, found = found, found | {name for name, of in bases.items() if of & found}
    return {name for name in found - {root} if not name.startswith("_")}


def test_each_heading_is_a_text_of_the_code_or_an_error_s_name(texts: str) -> None:
    names = subclasses("WalferryError")
    wrong = []
    for heading in HEADINGS:
        quoted = re.findall(r"`([^`]+)`", heading)
        assert quoted, heading
        for text in quoted:
            pieces = [piece for piece in text.split("…") if len(piece.strip(" :;,.()=/")) > 2]
            if text not in names | OTHERS and (not pieces or not all(piece.strip() in texts for piece in pieces)):
                wrong.append(text)
    assert not wrong


def test_each_kind_of_error_is_on_the_page() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert len(subclasses("WalferryError")) > 100
    assert subclasses("WalferryError") - named == set()


def test_no_text_stands_on_the_page_twice() -> None:
    assert sorted(HEADINGS) == sorted(set(HEADINGS))
