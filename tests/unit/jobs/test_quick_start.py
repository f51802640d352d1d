"""Spark's quick start on this machine: pip's PySpark, compiled, in the place of its zip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from walferry.jobs.quick_start import linked_home, quick_start

PACKAGE = Path(pyspark.__file__).parent


def test_the_linked_home_has_compiled_code_in_the_place_of_the_zip(tmp_path):
    home = linked_home(tmp_path / "cache", PACKAGE)
    assert home is not None
    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "jars").is_dir()
    zips = [str(path) for path in (home / "python" / "lib").iterdir()]
    assert {Path(path).name for path in zips} == {path.name for path in (PACKAGE / "python" / "lib").iterdir()}
    where = "import pyspark.daemon, py4j; print(pyspark.daemon.__spec__.origin, pyspark.daemon.__spec__.loader)"
    command = [sys.executable, "-S", "-c", where]
    environment = {"PYTHONPATH": os.pathsep.join(zips)}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "pyspark.zip/pyspark/daemon.py" in printed
    assert "SourceFileLoader" in printed  # which keeps compiled code; zipimporter does not


def test_the_home_is_made_once(tmp_path):
    home = linked_home(tmp_path, PACKAGE)
    assert linked_home(tmp_path, PACKAGE) == home
    assert list(tmp_path.iterdir()) == [home]


def test_without_pip_s_spark_or_a_folder_for_the_home_spark_starts_as_usual(tmp_path):
    assert linked_home(tmp_path, tmp_path) is None
    (tmp_path / "file").write_text("")
    assert linked_home(tmp_path / "file", PACKAGE) is None


def test_what_the_environment_says_stays(tmp_path):
    assert quick_start(tmp_path, {"SPARK_HOME": "/opt/spark", "SPARK_SUBMIT_OPTS": "-Xint"}).keys() == {"SPARK_LAUNCHER_OPTS"}
