"""Which tests a change touches is found by imports, also by those within functions and of conftest.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running.durations import ROOT
from tests.running.import_graph import distances, import_graph


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_imports_of_each_kind_are_found(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "plugins/walferry/__init__.py": "",
            "plugins/walferry/a.py": "import walferry.b\n",
            "plugins/walferry/b.py": "def late():\n    from walferry.c import name\n",
            "plugins/walferry/c.py": "import os\nfrom . import nothing\n",
            "tests/conftest.py": "from walferry import c\n",
            "tests/unit/test_a.py": "from walferry import a\nfrom tests.support import run\n",
            "tests/support.py": "",
        },
    )
    package = "plugins/walferry/__init__.py"
    graph = import_graph(root)
    assert graph["plugins/walferry/a.py"] == {package, "plugins/walferry/b.py"}
    assert graph["plugins/walferry/b.py"] == {package, "plugins/walferry/c.py"}
    assert graph["plugins/walferry/c.py"] == set()
    assert graph["tests/unit/test_a.py"] == {package, "plugins/walferry/a.py", "tests/support.py", "tests/conftest.py"}


def test_a_distance_is_that_to_the_nearest_changed_file() -> None:
    graph = {"t": frozenset("ab"), "a": frozenset("c"), "b": frozenset(), "c": frozenset(), "u": frozenset("b")}
    assert distances(graph, ["c"]) == {"c": 0, "a": 1, "t": 2}
    assert distances(graph, ["c", "b"]) == {"c": 0, "b": 0, "a": 1, "t": 1, "u": 1}
    assert distances(graph, ["README.md"]) == {"README.md": 0}


def test_a_circle_ends() -> None:
    assert distances({"a": frozenset("b"), "b": frozenset("a")}, ["a"]) == {"a": 0, "b": 1}


@pytest.mark.slow
def test_in_this_repo_a_test_stands_on_what_it_tests() -> None:
    graph = import_graph(ROOT)
    away = distances(graph, ["plugins/walferry/hbase/wal/reader.py"])
    assert away["tests/unit/hbase/wal/test_reader.py"] == 1
    assert away["tests/cluster/test_shipping.py"] > 1
    assert "tests/unit/base/test_amounts.py" not in away
    assert distances(graph, ["dags/replicate_peer.py"])["tests/airflow/test_dag_files.py"] == 1
