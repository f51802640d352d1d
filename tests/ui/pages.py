"""The replication page alone, without Airflow."""

from __future__ import annotations

from fastapi import FastAPI

from walferry.airflow.page import forms
from walferry.airflow.page.app import make_app
from walferry.airflow.page.links import Links
from walferry.airflow.page.sources import Sources
from walferry.replication.source.cluster import SourceCluster

CONN_ID = "hbase_source"


def page_of(source: SourceCluster, *, operator: bool = True) -> FastAPI:
    """Return the page of one source, for an operator or a viewer, whichever user asks."""
    shown = Sources(lambda conn_id: source)
    may = frozenset(forms.DAGS) if operator else frozenset[str]()
    return make_app(lambda: [CONN_ID], shown.look, lambda: may, Links("/"))
