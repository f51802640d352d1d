"""`make test` runs quick tests without HBase, and tests that show a capability."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.running.quick import group_of, is_quick


@pytest.mark.parametrize(
    ("nodeid", "marks", "quick"),
    [
        ("tests/unit/hbase/wal/test_reader.py::test", (), True),
        ("tests/zk/test_lease.py::test", (), True),
        ("tests/zk/test_lease.py::test", ("slow",), False),
        ("tests/cluster/test_shipping.py::test", (), False),
        ("tests/cluster/test_shipping.py::test", ("capability",), True),
        ("tests/cluster/test_shipping.py::test", ("capability", "slow"), True),
        ("tests/unit/test_soak.py::test", ("soak",), False),
    ],
)
def test_what_is_quick(nodeid: str, marks: tuple[str, ...], quick: bool) -> None:
    item = SimpleNamespace(
        nodeid=nodeid, get_closest_marker=lambda name: getattr(pytest.mark, name).mark if name in marks else None
    )
    assert is_quick(item) is quick  # type: ignore[arg-type]


@pytest.mark.parametrize(("case", "quick"), [("[direct-a]", True), ("[direct-b]", False), ("", False)])
def test_of_a_capability_with_many_cases_only_those_named_are_quick(case: str, quick: bool) -> None:
    mark = pytest.mark.capability("requests", cases=("direct-a",)).mark
    item = SimpleNamespace(nodeid=f"tests/cluster/test_it.py::test{case}", get_closest_marker={"capability": mark}.get)
    assert is_quick(item) is quick  # type: ignore[arg-type]


def test_a_file_that_takes_a_test_over_for_other_clusters_is_not_run_again() -> None:
    mark = pytest.mark.capability("requests").mark
    here = SimpleNamespace(__name__=__name__)
    for module, quick in ((here, True), (SimpleNamespace(__name__="another"), False)):
        item = SimpleNamespace(
            nodeid="tests/cluster/test_it.py::test",
            module=module,
            function=test_a_file_that_takes_a_test_over_for_other_clusters_is_not_run_again,
            get_closest_marker={"capability": mark}.get,
        )
        assert is_quick(item) is quick  # type: ignore[arg-type]


def test_tests_that_share_a_pair_of_clusters_run_in_one_process_and_others_by_file() -> None:
    def group(nodeid: str, *fixtures: str) -> str:
        return group_of(SimpleNamespace(nodeid=nodeid, fixturenames=fixtures))  # type: ignore[arg-type]

    assert group("tests/cluster/test_a.py::test", "tmp_path", "standalone_pair") == group("tests/b.py::test", "standalone_pair")
    assert group("tests/zk/test_a.py::test", "zk") == "tests/zk/test_a.py"
