"""An Airflow of its own for these tests: a temporary home, SQLite, this repo's dags and plugins.

The environment is set when this file is imported, which is before any test imports airflow.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]

assert "airflow" not in sys.modules, "airflow was imported before its environment was set: run tests/airflow in its own process"
HOME = Path(tempfile.mkdtemp(prefix="walferry-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
ENVIRON = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__WALFERRY__CACHE": str(HOME / "cache"),
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}
os.environ.update(ENVIRON)


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """The metadata database, migrated."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture
def source_conn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid source connection that leads nowhere."""
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", '{"conn_type": "generic", "host": "zk1", "extra": {"wal_root": "file:///hbase"}}')
