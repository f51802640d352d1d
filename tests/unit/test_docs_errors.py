"""docs/errors contains each kind of error, with the texts of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
LIBRARY = [path for path in sorted((REPO / "plugins/walferry").rglob("*.py")) if "_pb2" not in path.name]
PAGE = "".join(path.read_text() for path in sorted((REPO / "docs/errors").glob("*.md")))
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
def trees() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in LIBRARY]


@pytest.fixture(scope="module")
def texts(trees: list[ast.Module]) -> str:
    return "\n".join(text for tree in trees for text in literals(tree))


@pytest.fixture(scope="module")
def kinds(trees: list[ast.Module]) -> set[str]:
    """The names of the library's kinds of errors."""
    return subclasses("WalferryError", trees)


def subclasses(root: str, trees: list[ast.Module]) -> set[str]:
    """The names of all classes that are derived from `root`, as far as they have names for others."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    found, before = {root}, set[str]()
    while found != before:
        before, found = found, found | {name for name, of in bases.items() if of & found}
    return {name for name in found - {root} if not name.startswith("_")}


def test_each_heading_is_a_text_of_the_code_or_an_error_s_name(texts: str, kinds: set[str]) -> None:
    wrong = []
    for heading in HEADINGS:
        quoted = re.findall(r"`([^`]+)`", heading)
        assert quoted, heading
        for text in quoted:
            pieces = [piece for piece in text.split("…") if len(piece.strip(" :;,.()=/")) > 2]
            if text not in kinds | OTHERS and (not pieces or not all(piece.strip() in texts for piece in pieces)):
                wrong.append(text)
    assert not wrong


def test_each_kind_of_error_is_on_the_page(kinds: set[str]) -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert len(kinds) > 100
    assert kinds - named == set()


def test_no_text_stands_on_the_page_twice() -> None:
    assert sorted(HEADINGS) == sorted(set(HEADINGS))
