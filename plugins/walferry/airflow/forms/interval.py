"""The interval of a run that ships one again: a backfill's data interval, or what a run by hand was given."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import Context, Param

from walferry.airflow.forms.run_checks import check_conf
from walferry.runs.input import InputError, moment

RUN_TYPES = ["backfill", "manual", "operator_triggered"]
_OF_A_BACKFILL = "a backfill has intervals of its own"
FROM = Param(
    None,
    type=["null", "string"],
    format="date-time",
    title="From",
    description=f"First write time that is shipped, with a time zone. For runs by hand only: {_OF_A_BACKFILL}.",
)
TO = Param(
    None,
    type=["null", "string"],
    format="date-time",
    title="To",
    description="End of the interval, not included, as above.",
)


def interval_of(context: Context, now: datetime | None = None) -> tuple[datetime, datetime]:
    """Check the run's conf and return its interval. Raises InputError."""
    run, params = context["dag_run"], context["params"]
    check_conf(run.dag_id, run.conf or {}, context["dag"].params.keys(), params)
    given = {name: moment(name, params[name]) for name in ("from_date", "to_date") if params[name]}
    if str(getattr(run.run_type, "value", run.run_type)) == "backfill":
        if given:
            raise InputError(f"{_OF_A_BACKFILL}, so leave out {' and '.join(given)}. Nothing was done")
        start, end = run.data_interval_start, run.data_interval_end
    elif len(given) < 2:
        raise InputError(
            "a run by hand needs both from_date and to_date, such as 2025-03-01T10:00:00+00:00; to ship many intervals, create a "
            "backfill. Nothing was done"
        )
    else:
        start, end = given["from_date"], given["to_date"]
    if start is None or end is None or start >= end:
        raise InputError(f"the interval from {start} to {end} is empty: its end must be later than its start. Nothing was done")
    if end > (now or datetime.now(UTC)):
        raise InputError(
            f"the interval from {start} to {end} is not over yet: its end must be in the past, and now it is "
            f"{now or datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC. Nothing was done"
        )
    return start, end
