"""Which tests `make test` runs: those without HBase that are quick, and each capability once on real servers.

A test on real servers that shows a capability is marked with its name: `@pytest.mark.capability("initial snapshot")`. If it
has many cases, `cases=("kerberos-direct",)` names those that are enough.
"""

from __future__ import annotations

import pytest

PLACES = ("tests/unit/", "tests/zk/", "tests/airflow/test_dag_files.py")
SHARED = ("standalone_pair",)  # fixtures of clusters that several files use


def is_quick(item: pytest.Item) -> bool:
    """Return whether `make test` runs a test."""
    if item.get_closest_marker("soak"):
        return False
    if (marker := item.get_closest_marker("capability")) and not is_taken_over(item):
        cases = marker.kwargs.get("cases", ())
        return not cases or item.nodeid.endswith(tuple(f"[{case}]" for case in cases))
    return item.nodeid.startswith(PLACES) and not item.get_closest_marker("slow")


def is_taken_over(item: pytest.Item) -> bool:
    """Return whether a file has this test from another one, for other clusters."""
    module, function = getattr(item, "module", None), getattr(item, "function", None)
    return module is not None and function is not None and function.__module__ != module.__name__


def group_of(item: pytest.Item) -> str:
    """Return which tests run in one process: those of a file, and all that share the standalone pair, so that it starts once."""
    shared = set(SHARED).intersection(getattr(item, "fixturenames", ()))
    return min(shared) if shared else item.nodeid.partition("::")[0]
