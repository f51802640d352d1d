"""Decides which sources a user may see on the page, and which of its forms the user is offered, by asking Airflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request

from walferry.airflow.page.forms import DAGS
from walferry.airflow.page.links import REPLICATE
from walferry.airflow.sources import configured, own_name
from walferry.replication.source.cluster import DEFAULT_CONN_ID


def may_see(request: Request, user: Any = Depends(get_user)) -> list[str]:  # noqa: B008
    """Return the sources that the user may see: users who may see a source's shipping runs may see the state of its peers.

    Refuses users who may see none. If no source is configured, users are asked for the right to `hbase_source`.
    """
    names = configured().names
    allowed = [
        name
        for name in names or [DEFAULT_CONN_ID]
        if _allows(requires_access_dag("GET", param_dag_id=own_name(REPLICATE, name)), request, user)
    ]
    if not allowed:
        raise HTTPException(403)
    return [name for name in allowed if name in names]


def may_trigger(request: Request, user: Any = Depends(get_user)) -> frozenset[str]:  # noqa: B008
    """Return the DAGs of which the user may trigger runs. Airflow would only refuse the form of any other DAG."""
    ids = [own_name(dag, name) for name in configured().names for dag in DAGS]
    return frozenset(dag_id for dag_id in ids if _allows(requires_access_dag("POST", DagAccessEntity.RUN, dag_id), request, user))


def _allows(check: Callable[[Request, Any], None], request: Request, user: Any) -> bool:
    try:
        check(request, user)
    except HTTPException:
        return False
    return True
