"""The interval of a run, and runs that are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.airflow.forms.interval import interval_of
from walferry.runs.input import InputError

TEN, ELEVEN, NOON = (datetime(2025, 3, 1, hour, tzinfo=UTC) for hour in (10, 11, 12))


def context(kind: str, start: datetime | None = None, end: datetime | None = None, **conf: Any) -> Any:
    run = SimpleNamespace(dag_id="d", run_type=kind, conf=conf, data_interval_start=start, data_interval_end=end)
    params = {"from_date": None, "to_date": None}
    # Airflow adds whatever the conf has to a run's parameters.
    return {"dag_run": run, "dag": SimpleNamespace(params=params), "params": params | conf}


def test_a_backfill_s_run_has_its_data_interval_and_a_run_by_hand_what_it_is_given():
    assert interval_of(context("backfill", TEN, ELEVEN), NOON) == (TEN, ELEVEN)
    given = {"from_date": "2025-03-01T10:00:00Z", "to_date": "2025-03-01T12:00:00+01:00"}
    assert interval_of(context("manual", TEN, NOON, **given), NOON) == (TEN, ELEVEN)


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (context("manual", TEN, ELEVEN), "needs both from_date and to_date"),
        (context("manual", from_date="2025-03-01T10:00:00Z"), "needs both"),
        (context("manual", from_date="2025-03-01T10:00:00", to_date="2025-03-01T11:00:00Z"), "from_date is .* with its zone"),
        (context("manual", from_date="now", to_date="2025-03-01T11:00:00Z"), "from_date is 'now'"),
        (context("manual", from_date="2025-03-01T11:00:00Z", to_date="2025-03-01T11:00:00Z"), "is empty"),
        (context("manual", from_date="2025-03-01T11:00:00Z", to_date="2025-03-01T12:00:01Z"), "is not over yet"),
        (context("backfill", TEN, ELEVEN, to_date="2025-03-01T11:00:00Z"), "a backfill has intervals .* leave out to_date"),
        (context("backfill", TEN, ELEVEN, pear="2"), "there is no parameter 'pear'"),
    ],
)
def test_a_run_without_an_interval_of_the_past_is_refused(refused: Any, why: str):
    with pytest.raises(InputError, match=why):
        interval_of(refused, NOON)
