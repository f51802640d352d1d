"""The proposals of the forms: kept small, read defensively, never in the way of the work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from walferry.airflow.forms import choices


class Variables:
    """Airflow's variables."""

    def __init__(self) -> None:
        self.value: str | None = None
        self.writes = 0
        self.broken = False

    def get(self, key: str, default: Any, deserialize_json: bool) -> Any:
        assert (key, deserialize_json) == (choices.VARIABLE, True)
        if self.broken:
            raise RuntimeError("no database")
        return default if self.value is None else json.loads(self.value)

    def set(self, key: str, value: Any, description: str, serialize_json: bool) -> None:
        assert (key, serialize_json) == (choices.VARIABLE, True)
        if self.broken:
            raise RuntimeError("no database")
        self.value = json.dumps(value)
        self.writes += 1


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    variables = Variables()
    monkeypatch.setattr(choices, "Variable", variables)
    return variables


def test_what_was_kept_is_proposed_with_its_peers(variables):
    choices.keep("east", ["s,1,1/p-d,1,2", "s,1,1/q"])
    choices.keep("west", ["t,1,1/r-d,1,2"])
    assert choices.proposed() == ["s,1,1/p-d,1,2", "s,1,1/q", "t,1,1/r-d,1,2"]
    assert choices.proposed_peers() == ["p", "q", "r"]


def test_it_is_written_on_change_only_and_an_empty_list_ends_it(variables):
    choices.keep("east", [])
    assert variables.writes == 0
    for _ in range(2):
        choices.keep("east", ["s/p"])
    assert variables.writes == 1
    choices.keep("east", [])
    assert (variables.value, choices.proposed()) == ("{}", [])


def test_very_many_or_long_ones_stay_a_small_variable(variables):
    for conn in range(100):
        choices.keep(f"conn{conn}", [f"server{i}/p" for i in range(10_000)] + ["s/" + "x" * 10_000])
    assert len(variables.value) < 20_000
    assert "conn99" in variables.value


@pytest.mark.parametrize("value", ["[]", '"text"', '{"a": 1}', '{"a": [1, null, "no queue"]}', "null"])
def test_what_is_no_such_variable_proposes_nothing(variables, value):
    variables.value = value
    assert choices.proposed() == choices.proposed_peers() == []


def test_airflow_without_its_database_proposes_nothing_and_stops_no_work(variables):
    variables.broken = True
    assert choices.proposed() == []
    choices.keep("east", ["s/p"])
