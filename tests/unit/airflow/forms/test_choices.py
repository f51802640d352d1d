"""The proposals of the forms: kept small, read defensively, never in the way of the work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from walferry.airflow.forms import choices


class Variables:
    """Airflow's variables."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.writes = 0
        self.broken = False

    def get(self, key: str, default: Any, deserialize_json: bool) -> Any:
        assert deserialize_json
        if self.broken:
            raise RuntimeError("no database")
        return json.loads(self.values[key]) if key in self.values else default

    def set(self, key: str, value: Any, description: str, serialize_json: bool) -> None:
        assert serialize_json
        if self.broken:
            raise RuntimeError("no database")
        self.values[key] = json.dumps(value)
        self.writes += 1


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    variables = Variables()
    monkeypatch.setattr(choices, "Variable", variables)
    return variables


def test_what_was_kept_is_proposed_for_its_own_source_with_its_peers(variables):
    choices.keep("hbase_source", ["s,1,1/q", "s,1,1/p-d,1,2"])
    choices.keep("west", ["t,1,1/r-d,1,2"])
    assert choices.proposed("hbase_source") == ["s,1,1/p-d,1,2", "s,1,1/q"]
    assert choices.peers_of(choices.proposed("hbase_source")) == ["p", "q"]
    assert choices.proposed("west") == ["t,1,1/r-d,1,2"]
    assert choices.proposed("east") == []
    assert sorted(variables.values) == ["walferry_recovered_queues", "walferry_recovered_queues-west"]


def test_it_is_written_on_change_only_and_an_empty_list_ends_it(variables):
    choices.keep("east", [])
    assert variables.writes == 0
    for _ in range(2):
        choices.keep("east", ["s/p"])
    assert variables.writes == 1
    choices.keep("east", [])
    assert (variables.writes, choices.proposed("east")) == (2, [])


def test_very_many_or_long_ones_stay_a_small_variable(variables):
    choices.keep("east", [f"server{i}/p" for i in range(10_000)] + ["s/" + "x" * 10_000])
    (value,) = variables.values.values()
    assert len(value) < 2000
    assert len(choices.proposed("east")) == choices.MAX_QUEUES


@pytest.mark.parametrize("value", ["{}", '"text"', '{"a": ["s/p"]}', '[1, null, "no queue"]', "null"])
def test_what_is_no_such_variable_proposes_nothing(variables, value):
    variables.values[choices.VARIABLE] = value
    assert choices.proposed("hbase_source") == []


def test_airflow_without_its_database_proposes_nothing_and_stops_no_work(variables):
    variables.broken = True
    assert choices.proposed("east") == []
    choices.keep("east", ["s/p"])
