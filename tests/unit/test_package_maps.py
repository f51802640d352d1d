"""The maps that packages' docstrings draw name modules that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[2] / "plugins/walferry"
PACKAGES = [path.parent for path in sorted(LIBRARY.rglob("__init__.py"))]
_IN_TEXT = re.compile(r"`([a-z][a-z0-9_]*)`")
_IN_TABLE = re.compile(r"(?m)^ {4}((?:[a-z][a-z0-9_]*)(?:, [a-z][a-z0-9_]*)*)(?: {2,}\S|$)")


def named(docstring: str) -> set[str]:
    """The modules that a docstring names: in backquotes, or before the text of a line of a table."""
    return {*_IN_TEXT.findall(docstring), *(name for line in _IN_TABLE.findall(docstring) for name in line.split(", "))}


def modules(package: Path) -> set[str]:
    """The modules and packages in a folder."""
    return {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def test_names_are_found_in_text_and_in_tables() -> None:
    docstring = "A `b`, not `b.c` or `D`.\n\n    e, f_g    what they do\n    and `h` in a line\n    i\n"
    assert named(docstring) == {"b", "e", "f_g", "h", "i"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(LIBRARY)))
def test_a_package_s_map_names_modules_that_are_there(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()), clean=True) or ""
    known = modules(package) | modules(LIBRARY) | {"walferry"}  # a package may name others that it stands on
    assert named(docstring) - known == set()
