"""Executors whose Python has another minor version than the driver's: two real Pythons, and what the user is told."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from embedded.spark import submit_script
from embedded.spark_connect import ConnectServer
from tests.spark.test_connect import NUMBER, texts
from walferry.airflow.hooks.spark_output import failure
from walferry.jobs.archive import build_archive
from walferry.jobs.connect.errors import ConnectFailed
from walferry.jobs.connect.server import Server
from walferry.jobs.connect.sessions import open_session

MINOR = "{}.{}".format(*sys.version_info)
JOB = "from walferry.jobs.submitted import Submitted\nprint(Submitted('lengths').run(len, ['two'], int))\n"


@pytest.fixture(autouse=True)
def _no_libraries_of_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # the shell may have set it


@pytest.fixture(scope="module")
def other() -> str:
    """A Python of another minor version: one on PATH, or one that is installed beside this one, as pyenv does."""
    minors = [minor for minor in ("3.11", "3.12", "3.13", "3.14") if minor != MINOR]
    on_path = [found for minor in minors if (found := shutil.which(f"python{minor}"))]
    beside = [str(path) for minor in minors for path in Path(sys.base_prefix).parent.glob(f"{minor}.*/bin/python{minor}")]
    for each in (*on_path, *beside):
        if subprocess.run([each, "-c", ""], capture_output=True, check=False).returncode == 0:
            return each
    pytest.skip(f"only Python {MINOR} is here: install one of {', '.join(minors)} too")


def test_a_job_of_spark_submit_says_which_setting_names_the_python(other: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    said = tmp_path / "said"
    conf = {"spark.pyspark.python": other, "spark.pyspark.driver.python": sys.executable}
    with said.open("wb") as out:
        status = submit_script(tmp_path / "job.py", [], out=out, cores=1, conf=conf).wait(120)
    text = failure(said.read_text().splitlines(), status)
    assert status != 0
    assert text.startswith("The executors run another Python than the driver. Let spark.pyspark.python, or PYSPARK_PYTHON"), text
    assert f"that in driver: {MINOR}" in text
    assert f"different version: {Path(other).name.removeprefix('python')}" in text


def test_a_connect_server_is_told_to_name_another_python(other: str, tmp_path: Path) -> None:
    """spark-submit then runs the job, and a task's log has this as a warning."""
    archive = build_archive(tmp_path)
    with ConnectServer(tmp_path, tasks=1, python=other) as started, Server(started.address) as server:
        session = open_session(server, archive, tmp_path)
        with pytest.raises(ConnectFailed, match="start it with a PYSPARK_PYTHON that names such a Python"):
            texts(session, NUMBER)
