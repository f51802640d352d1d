"""A failed task leaves one short line to the report, whatever the error quotes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from walferry.airflow.tasks import common
from walferry.base.errors import WalferryError


@pytest.mark.parametrize("what", ["", "claim of s"])
def test_a_problem_is_one_short_line(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    left: dict[str, list[str]] = {}
    ti = SimpleNamespace(task_id="peer.plan", map_index=3, xcom_push=left.__setitem__)
    monkeypatch.setattr(common, "get_current_context", lambda: {"ti": ti})
    with pytest.raises(WalferryError), common.telling(what):
        raise WalferryError("a\nFAILED forged \x1b[31m" + "x" * 100_000)
    name, problem = left[common.PROBLEM]
    assert name == "peer.plan_3"
    assert problem.isprintable()
    assert len(problem) <= common.MAX_PROBLEM_CHARS
