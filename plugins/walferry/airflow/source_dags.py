"""Makes the DAGs of a DAG file, one for each source of Airflow's configuration."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, get_parsing_context

from walferry.airflow.endings import RetryIfItHelps
from walferry.airflow.forms.run_checks import RUN_TYPES
from walferry.airflow.sources import configured, own_name

Wire = Callable[[str], None]


def dag_of_each_source(
    *,
    params: Mapping[str, Any] | Callable[[str], Mapping[str, Any]],
    minutes: int,
    schedule: Any = None,
    retries: int = 2,
    about: str = "replication",
    run_types: list[str] | None = RUN_TYPES,
    **args: Any,
) -> Callable[[Wire], Wire]:
    """Return a decorator that makes a DAG for each source of a function that wires the tasks of a source's DAG.

    The function's name is the DAG's common name. `params` and `schedule` may be functions of the source's connection id. Each
    task may take `minutes`, and is tried again if that can help. `about` is a tag, and so is the source. `run_types` are the
    kinds of runs that Airflow lets begin; None: all kinds. Other arguments are Airflow's own.
    """

    def make(wire: Wire) -> Wire:
        wanted = get_parsing_context().dag_id  # in a task's process: the others' DAGs would only delay the task
        ids = {own_name(wire.__name__, conn_id): conn_id for conn_id in configured().names}
        for dag_id, conn_id in ids.items():
            if wanted not in (None, dag_id):
                continue
            with DAG(
                dag_id,
                schedule=schedule(conn_id) if callable(schedule) else schedule,
                params={
                    "source_conn_id": _source(conn_id),
                    **copy.deepcopy(dict(params(conn_id) if callable(params) else params)),  # a run's values are kept in them
                },
                start_date=datetime(2025, 1, 1, tzinfo=UTC),
                catchup=False,
                allowed_run_types=run_types,  # type: ignore[arg-type]  # it takes their names, too
                default_args={
                    "retries": retries,
                    "retry_delay": timedelta(seconds=10),
                    "execution_timeout": timedelta(minutes=minutes),
                    "retry_policy": RetryIfItHelps(),
                },
                tags=["hbase", about, conn_id],
                **args,
            ):
                wire(conn_id)
        return wire

    return make


def _source(conn_id: str) -> Param:
    """Return the parameter that names the DAG's source. A run with another source is refused."""
    return Param(
        conn_id,
        type="string",
        enum=[conn_id],
        title="Source cluster",
        description="Airflow connection of the cluster that this DAG serves. Other sources have DAGs of their own.",
    )
