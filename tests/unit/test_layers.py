"""Imports go one way: what stands below knows nothing of what stands above."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.running.import_graph import imported as modules_imported
from tests.running.import_graph import statements

PACKAGE = Path(__file__).resolve().parents[2] / "plugins" / "walferry"
# From the bottom up, as the design has it. Packages of one row may import one another, where the others' maps allow it.
# fmt: off
LAYERS = (
    {
        "errors", "names", "hosts", "texts", "records", "amounts", "periodic", "users", "protos", "kernels", "security", "zk",
        "__version__",
    },
    {"wal", "hbase", "rpc", "crypto"},
    {"source", "files", "filters", "hfiles", "sinks", "tables"},
    {"regions"},
    {"queues"},
    {"retention"},
    {"engine"},
    {"shipping", "bulkload"},
    {"reship", "bootstrap", "verification", "status"},
    {"spark", "admin", "inspection"},
    {"diagnosis"},
    {"airflow"},
    {"cli"},
    {"__main__"},
)
# fmt: on
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# These two stand by themselves: all that they import lies below them.
ALONE = {"wal": {"wal", "kernels", "protos", "names", "errors"}, "rpc": {"rpc", "security", "protos", "names", "texts", "errors"}}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part(path: Path) -> str:
    """The package of a module, or the module's name if it lies at the top."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The parts of the library that a module imports, at whatever place in it."""
    found = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "walferry":
            parts = node.module.split(".")[1:2] or [alias.name for alias in node.names]
            found |= set(parts)
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("walferry.")}
    return found


def test_a_module_imports_nothing_from_above() -> None:
    for path in MODULES:
        mine, theirs = part(path), imported(path)
        above = {other for other in theirs if RANK[other] > RANK[mine]}
        assert not above, f"{path.relative_to(PACKAGE)} imports {sorted(above)}, which stand above {mine}"
        assert mine not in ALONE or theirs <= ALONE[mine], path


def test_only_one_module_knows_which_kinds_of_sinks_there_are() -> None:
    kinds = {f"walferry.sinks.{path.name}" for path in (PACKAGE / "sinks").iterdir() if (path / "__init__.py").exists()}
    assert kinds
    knowing = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if not any(path.is_relative_to(PACKAGE / "sinks" / kind.rpartition(".")[2]) for kind in kinds)
        and any(name == kind or name.startswith(kind + ".") for name in modules_imported(path) for kind in kinds)
    }
    assert knowing == {"sinks/of_peer.py"}


def test_every_package_says_what_lives_there() -> None:
    silent = [
        str(init.relative_to(PACKAGE))
        for init in PACKAGE.rglob("__init__.py")
        if not (ast.get_docstring(ast.parse(init.read_text())) or "").strip()
    ]
    assert not silent
