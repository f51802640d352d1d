"""Registers with Airflow what it finds only through a plugin: the replication page, notes on runs, a timetable."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from walferry.airflow import run_notes
from walferry.airflow.page.mounted import APPS, NAVIGATION
from walferry.airflow.timetables import BackfillIntervals


class WalferryPlugin(AirflowPlugin):
    """Walferry's part of Airflow."""

    name = "walferry"
    timetables = [BackfillIntervals]  # noqa: RUF012 - as Airflow's class has it
    fastapi_apps = APPS
    external_views = [NAVIGATION]  # noqa: RUF012
    listeners = [run_notes]  # noqa: RUF012
