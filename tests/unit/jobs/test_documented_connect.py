"""The commands of docs/spark.md that start a Spark Connect server, run as they stand there, with a stand-in for spark-submit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from embedded.spark_connect import MAIN, SETTINGS

REPO = Path(__file__).resolve().parents[3]
# As Spark starts Python: in a folder of its own, with what it has found in the environment.
SPARK_SUBMIT = """#!/bin/bash
cd /
"$PYSPARK_PYTHON" -c 'import connect_daemon, json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))' "$@"
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment that the server gets."""
    text = (REPO / "docs/spark.md").read_text()
    (block,) = re.findall(r"(?:^    .*\n)+^    spark-submit .*SparkConnectServer.*\n(?:^    .*\n)*", text, re.MULTILINE)
    folder = tmp_path_factory.mktemp("bin")
    (folder / "spark-submit").write_text(SPARK_SUBMIT)
    (folder / "spark-submit").chmod(0o755)
    environment = {"PATH": f"{folder}:{Path(sys.executable).parent}:{os.defpath}"}
    done = subprocess.run(["bash", "-ec", block], cwd=REPO, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    arguments, environ = json.loads(done.stdout.splitlines()[-1])
    return arguments, environ


def test_workers_find_the_daemon_wherever_spark_starts_them(started: tuple[list[str], dict[str, str]]) -> None:
    _, environ = started  # there is none if the import has failed
    assert environ["PYTHONPATH"] == str(REPO / "spark_jobs")


def test_the_server_is_the_one_that_tests_use(started: tuple[list[str], dict[str, str]]) -> None:
    arguments, _ = started
    settings = dict(word.split("=", 1) for flag, word in pairwise(arguments) if flag == "--conf")
    assert MAIN in arguments
    assert {name: settings.get(name) for name in SETTINGS if name != "spark.log.level"} == {
        name: value for name, value in SETTINGS.items() if name != "spark.log.level"
    }


def test_the_token_is_in_no_argument(started: tuple[list[str], dict[str, str]]) -> None:
    arguments, environ = started
    token = environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    assert re.fullmatch("[0-9a-f]{48}", token)
    assert not any(token in word for word in arguments)
