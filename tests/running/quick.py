"""Which tests `make test` runs: those without HBase that are quick, and each capability once on real servers.

A test on real servers that shows a capability is marked with its name: `@pytest.mark.capability("first copy")`.
"""

from __future__ import annotations

import pytest

FOLDERS = ("tests/unit/", "tests/zk/")


def is_quick(item: pytest.Item) -> bool:
    """Return whether `make test` runs a test."""
    if item.get_closest_marker("soak"):
        return False
    if item.get_closest_marker("capability"):
        return True
    return item.nodeid.startswith(FOLDERS) and not item.get_closest_marker("slow")
