"""Machines of YARN that have Spark and Python, but neither the library nor the packages that it needs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.yarn.conftest import MODES, TEST_SECONDS, Backlog, OnYarn, ship
from walferry.jobs.environment import NAME, PYTHON, pack
from walferry.replication.peers.settings import SinkKind


@pytest.fixture(scope="session")
def environment(cluster_folder: Path) -> Path:
    """What `walferry pack` makes, with the Python of this environment's Python."""
    target = cluster_folder / "environment.tar.gz"
    pack(target, Path(os.path.realpath(sys.executable)))
    return target


@pytest.mark.timeout(TEST_SECONDS)
@MODES
def test_a_job_brings_its_packages_and_compiled_kernels(
    on_yarn: OnYarn, backlog: Backlog, mode: str, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"deploy-mode": mode, "spark.archives": f"{environment}#{NAME}"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    conf = {
        "spark.pyspark.python": PYTHON,
        **{
            f"{prefix}.{name}": str(tmp_path / name)
            for prefix in ("spark.executorEnv", "spark.yarn.appMasterEnv")
            for name in ("WALFERRY_CACHE", "NUMBA_CACHE_DIR")
        },
    }
    on_yarn.run(ship(backlog, sink=SinkKind.DIRECT), **conf)
    backlog.check_shipped()
    assert list((tmp_path / "WALFERRY_CACHE/lib").glob("*/walferry")), on_yarn.told()
    compiled = [path.name for path in (tmp_path / "NUMBA_CACHE_DIR").rglob("*.nbi")]
    assert not compiled, "`walferry compile --here` (or `make kernels`) does not compile these, or was not run"
