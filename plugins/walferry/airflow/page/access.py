"""Who may see the page, and which of its forms a user is offered: Airflow itself is asked, as for its own pages.

It imports Airflow, so the app is made with it at the first request only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request

from walferry.airflow.page.forms import DAGS
from walferry.airflow.page.links import REPLICATE

# Who may see the runs that ship may see how they stand.
may_see: Callable[..., Any] = requires_access_dag("GET", param_dag_id=REPLICATE)
_MAY_TRIGGER = {dag_id: requires_access_dag("POST", DagAccessEntity.RUN, dag_id) for dag_id in DAGS}


def may_trigger(request: Request, user: Any = Depends(get_user)) -> frozenset[str]:  # noqa: B008
    """The DAGs of which the user may trigger runs. The form of another one would only be refused by Airflow."""
    return frozenset(dag_id for dag_id, check in _MAY_TRIGGER.items() if _allows(check, request, user))


def _allows(check: Callable[[Request, Any], None], request: Request, user: Any) -> bool:
    try:
        check(request, user)
    except HTTPException:
        return False
    return True
