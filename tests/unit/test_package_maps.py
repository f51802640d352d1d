"""The maps in packages' docstrings name all modules, and no others."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
LIBRARY = REPO / "plugins/walferry"
PACKAGES = [path.parent for path in sorted(LIBRARY.rglob("__init__.py"))]
NO_PART_OF_A_MAP = {"__init__", "__main__"}
_IN_TEXT = re.compile(r"`([a-z][a-z0-9_]*)`")
_IN_TABLE = re.compile(r"(?m)^(?: {4})?((?:[a-z][a-z0-9_]*)(?:, [a-z][a-z0-9_]*)*) {2,}\S")


def rows(docstring: str) -> list[str]:
    """What stands before the texts of a table's lines."""
    return _IN_TABLE.findall(docstring)


def named(docstring: str) -> set[str]:
    """The modules that a docstring names: in backquotes, or before the text of a line of a table."""
    return {*_IN_TEXT.findall(docstring), *(name for row in rows(docstring) for name in row.split(", "))}


def modules(package: Path) -> set[str]:
    """The modules and packages in a folder."""
    found = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return found - NO_PART_OF_A_MAP


def docstring_of(package: Path) -> str:
    """A package's docstring as it is written."""
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text()), clean=False) or ""


def test_names_are_found_in_text_and_in_tables() -> None:
    docstring = "A `b`, not `b.c` or `D`.\n\n    e, f_g    what they do\n    and `h` in a line\n\nk    too\n"
    assert named(docstring) == {"b", "e", "f_g", "h", "k"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(LIBRARY)))
def test_a_package_s_map_names_what_is_there_and_nothing_else(package: Path) -> None:
    here, names = modules(package), named(docstring_of(package))
    assert names - here - modules(LIBRARY) - {"walferry"} == set()  # a package may name others that it stands on
    assert here - names == set()


def test_the_picture_of_the_library_is_what_its_imports_are_held_to() -> None:
    contracts = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (floors,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["walferry"])
    assert rows(docstring_of(LIBRARY)) == [floor.replace(" | ", ", ") for floor in floors]
    assert sorted(name for floor in floors for name in floor.split(" | ")) == sorted(modules(LIBRARY))
