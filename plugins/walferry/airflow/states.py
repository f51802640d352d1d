"""Asks how other tasks of a run stand, from within a task."""

from __future__ import annotations

from typing import Any

ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")  # Airflow's states of tasks that come to nothing more


def state_of(ti: Any, task_id: str, map_index: int = -1) -> str | None:
    """Return how a task of the run stands, or has ended; None if it has not been scheduled yet."""
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[task_id], run_ids=[ti.run_id], map_index=map_index)
    return next(iter(states[ti.run_id].values()), None)
