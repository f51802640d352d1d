"""Which files of this repo a file stands on: what it imports, at whatever place in it.

A test stands on the conftest.py of its folder and of those above as well. What runs in other processes is found by imports too:
what starts it imports it. Only DAG files, which Airflow reads, and Spark's scripts are imported by nothing: see READ.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOTS = ("plugins", ".")  # where modules are looked for
FOLDERS = ("plugins", "tests", "embedded", "demo", "bench", "dags", "spark_jobs")
READ = {"tests/airflow": ("dags", "spark_jobs"), "tests/ui": ("dags",), "tests/demo": ("dags", "spark_jobs")}


def import_graph(root: Path) -> dict[str, frozenset[str]]:
    """Return for each Python file of the repo the files that it imports. Paths are relative to `root`."""
    files = sorted(path.relative_to(root).as_posix() for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    modules = {name: file for file in files for name in names_of(file)}
    graph = {}
    for file in files:
        found = {modules[name] for name in imported(root / file) if name in modules}
        if file.startswith("tests/"):
            found |= {f"{folder}/conftest.py" for folder in Path(file).parents if f"{folder}/conftest.py" in modules.values()}
        for folder, read in READ.items():
            if file.startswith(f"{folder}/"):
                found |= {other for other in files if other.startswith(tuple(f"{name}/" for name in read))}
        graph[file] = frozenset(found - {file})
    return graph


def names_of(file: str) -> list[str]:
    """Return the names by which a file can be imported."""
    parts = list(Path(file).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return [".".join(parts[1:] if parts[0] == root else parts) for root in ROOTS if root == "." or parts[0] == root]


def imported(path: Path) -> set[str]:
    """Return the full names of the modules that a file may import, with the packages that they lie in."""
    found = set()
    for node in statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found | {".".join(name.split(".")[:count]) for name in found for count in range(1, name.count(".") + 1)}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a module at any depth, without the expressions, which are most of it and import nothing."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield inner
            yield from statements(inner)


def distances(graph: Mapping[str, frozenset[str]], changed: Iterable[str]) -> dict[str, int]:
    """Return how many imports each file is away from the nearest changed one; a file that stands on none is not in it."""
    importers: dict[str, list[str]] = {}
    for file, found in graph.items():
        for other in found:
            importers.setdefault(other, []).append(file)
    away = dict.fromkeys(changed, 0)
    queue = deque(away)
    while queue:
        file = queue.popleft()
        for importer in importers.get(file, ()):
            if importer not in away:
                away[importer] = away[file] + 1
                queue.append(importer)
    return away
