"""Times that a form gives have a zone."""

from __future__ import annotations

import time

import pytest

from tests.unit.runs.reports.test_verification import PARAMS
from walferry.runs.input.recovery_input import InputError
from walferry.runs.steps.verification import options_of


@pytest.mark.parametrize("value", ["yesterday", "2026-01-01", "2026-01-01T00:00:00"])
@pytest.mark.parametrize("name", ["start_time", "end_time"])
def test_a_time_without_a_zone_is_refused(name, value):
    with pytest.raises(InputError, match=f"{name} is '{value}'; it must be a time with its zone"):
        options_of({**PARAMS, name: value})


def test_a_time_is_in_the_zone_that_it_names_and_has_to_name_one(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        times = {"start_time": "2026-03-08T03:30:00.001-04:00", "end_time": "2026-03-08T09:00:00Z"}
        options = options_of({**PARAMS, **times})
        with pytest.raises(InputError, match="end_time is '2026-03-08T09:00:00'; it must be a time with its zone"):
            options_of({**PARAMS, "end_time": "2026-03-08T09:00:00"})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (options.start_time, options.end_time) == (1772955000001, 1772960400000)
