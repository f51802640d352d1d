"""Spark's quick start on this machine: pip's PySpark, compiled, in the place of its zip."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pyspark
import pytest

from walferry.jobs.quick_start import linked_home, quick_start

PACKAGE = Path(pyspark.__file__).parent


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """pip's PySpark by links. Its version is that of the jars, even if a client of another version lies over it here."""
    package = tmp_path / "pyspark"
    package.mkdir()
    for each in PACKAGE.iterdir():
        (package / each.name).symlink_to(each)
    say_version(package, metadata.version("pyspark"))
    return package


def say_version(package: Path, version: str) -> None:
    (package / "version.py").unlink()
    (package / "version.py").write_text(f'__version__: str = "{version}"\n')


def test_the_linked_home_has_compiled_code_in_the_place_of_the_zip(package, tmp_path):
    home = linked_home(tmp_path / "cache", package)
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


def test_the_home_is_made_once(package, tmp_path):
    home = linked_home(tmp_path / "cache", package)
    assert linked_home(tmp_path / "cache", package) == home
    assert list((tmp_path / "cache").iterdir()) == [home]


def test_without_pip_s_spark_or_a_folder_for_the_home_spark_starts_as_usual(package, tmp_path):
    assert linked_home(tmp_path, tmp_path) is None
    (tmp_path / "file").write_text("")
    assert linked_home(tmp_path / "file", package) is None


def test_pip_s_spark_below_a_client_of_another_version_is_not_linked(package, tmp_path):
    """pip installs pyspark-client into the folder of pyspark, and so replaces Python code that the JVM relies on."""
    say_version(package, "4.9.9")
    assert linked_home(tmp_path / "cache", package) is None


def test_what_the_environment_says_stays(tmp_path):
    assert quick_start(tmp_path, {"SPARK_HOME": "/opt/spark", "SPARK_SUBMIT_OPTS": "-Xint"}).keys() == {"SPARK_LAUNCHER_OPTS"}
