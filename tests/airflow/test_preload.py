"""Tasks that are forked from a process with Airflow's local settings find Walferry imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
TASK = """\
import json, sys, threading
import airflow
import airflow.sdk.execution_time.task_runner

before = set(sys.modules)
import replicate_peer
from walferry.runs.steps import batch
print(json.dumps({"new": sorted(set(sys.modules) - before), "all": sorted(sys.modules), "threads": threading.active_count()}))
"""


@pytest.mark.parametrize("settings", ["", "import walferry.airflow.preload\n"])
def test_a_task_imports_the_library_unless_the_local_settings_have_preloaded_it(tmp_path, settings):
    config = tmp_path / "config"
    config.mkdir()
    (config / "airflow_local_settings.py").write_text(settings)
    path = os.pathsep.join([str(REPO / "plugins"), str(REPO / "dags")])
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": path}
    found = json.loads(subprocess.run([sys.executable, "-c", TASK], env=environment, check=True, capture_output=True).stdout)
    packages = {module.partition(".")[0] for module in found["new"]}
    assert (packages == {"replicate_peer"}) == bool(settings), found["new"]
    assert not {"numpy", "numba", "grpc", "pyarrow", "pandas"} & set(found["all"])
    assert found["threads"] == 1
