"""`make test` runs quick tests without HBase, and those that show a capability."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.running.quick import is_quick


@pytest.mark.parametrize(
    ("nodeid", "marks", "quick"),
    [
        ("tests/unit/wal/test_reader.py::test", (), True),
        ("tests/zk/test_lease.py::test", (), True),
        ("tests/zk/test_lease.py::test", ("slow",), False),
        ("tests/cluster/test_shipping.py::test", (), False),
        ("tests/cluster/test_shipping.py::test", ("capability",), True),
        ("tests/cluster/test_shipping.py::test", ("capability", "slow"), True),
        ("tests/unit/test_soak.py::test", ("soak",), False),
    ],
)
def test_what_is_quick(nodeid: str, marks: tuple[str, ...], quick: bool) -> None:
    item = SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda name: name if name in marks else None)
    assert is_quick(item) is quick  # type: ignore[arg-type]
