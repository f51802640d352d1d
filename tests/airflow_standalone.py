"""A real Airflow for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from demo.airflow_standalone import Airflow


@contextmanager
def running(airflow: Airflow, *dag_ids: str) -> Iterator[Airflow]:
    """Start Airflow, wait until it knows these DAGs, and stop it at the end."""
    airflow.launch()
    try:
        for dag_id in dag_ids:
            airflow.await_dag(dag_id)
        yield airflow
    finally:
        airflow.stop()
