"""Decides who may see the page, and which of its forms a user is offered, by asking Airflow as Airflow's own pages do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request

from walferry.airflow.page.forms import DAGS
from walferry.airflow.page.links import REPLICATE

# A user who may see the shipping runs may see the state of their peers.
may_see: Callable[..., Any] = requires_access_dag("GET", param_dag_id=REPLICATE)
_MAY_TRIGGER = {dag_id: requires_access_dag("POST", DagAccessEntity.RUN, dag_id) for dag_id in DAGS}


def may_trigger(request: Request, user: Any = Depends(get_user)) -> frozenset[str]:  # noqa: B008
    """Return the DAGs of which the user may trigger runs. Airflow would only refuse the form of any other DAG."""
    return frozenset(dag_id for dag_id, check in _MAY_TRIGGER.items() if _allows(check, request, user))


def _allows(check: Callable[[Request, Any], None], request: Request, user: Any) -> bool:
    try:
        check(request, user)
    except HTTPException:
        return False
    return True
