"""`walferry --conn-id`: connections where Airflow keeps them, read outside of any task."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRA = json.dumps({"wal_root": "hdfs://nn/hbase"})
ADD = """\
from airflow.models.connection import Connection
from airflow.utils.db import initdb
from airflow.utils.session import create_session

initdb()
with create_session() as session:
    fields = {"host": "no-such-host.invalid", "port": 2183, "password": "hush-hush", "extra": %r}
    session.add(Connection(conn_id="east", conn_type="generic", **fields))
    session.add(Connection(conn_id="spark", conn_type="spark_connect", host="127.0.0.1", port=1, password="hush-hush"))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An Airflow whose database has a connection `east`."""
    home = tmp_path_factory.mktemp("airflow")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_CONN_", "AIRFLOW__"))}
    environment |= {"AIRFLOW_HOME": str(home), "PYTHONPATH": str(ROOT / "plugins"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    subprocess.run([sys.executable, "-c", ADD % EXTRA], env=environment, check=True, capture_output=True)
    return environment


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "walferry.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_a_connection_of_airflow_s_database_is_found_and_nothing_but_the_command_s_own_is_printed(
    environment: dict[str, str],
) -> None:
    done = run(environment, "--conn-id", "east", "peers", "list", "--json")
    assert done.returncode == 1
    assert done.stderr.endswith(f"walferry: {json.loads(done.stdout)['error']}\n")
    assert "no-such-host.invalid:2183 can be reached: the name no-such-host.invalid does not resolve" in done.stderr
    assert "hush-hush" not in done.stderr


def test_the_environment_comes_first(environment: dict[str, str]) -> None:
    other = {**environment, "AIRFLOW_CONN_EAST": json.dumps({"conn_type": "hbase", "host": "other.invalid", "extra": {}})}
    done = run(other, "--conn-id", "east", "peers", "list")
    assert "connection 'east': extra has no wal_root" in done.stderr


def test_a_connection_that_is_nowhere_is_told_with_what_to_do(environment: dict[str, str]) -> None:
    done = run(environment, "--conn-id", "west", "peers", "list")
    assert (done.returncode, done.stdout) == (1, "")
    assert "connection 'west' is not defined: add one of type hbase_source (host" in done.stderr


@pytest.mark.parametrize(
    ("conn_id", "said"),
    [
        ("spark", "Spark Connect server 127.0.0.1:1: failed to connect .*Start it, or correct host and port of the connection"),
        ("west", "connection 'west' is not defined. Add one of type spark_connect"),
        ("../x", "connection '../x' is not defined"),
        ("east", "connection 'east' is of type 'generic', not spark_connect"),
    ],
)
def test_a_check_of_a_spark_connect_server_says_why_it_cannot_be_used(
    environment: dict[str, str], conn_id: str, said: str
) -> None:
    done = run(environment, "--conn-id", "east", "check", "--connect-conn-id", conn_id, "--json")
    (of_spark,) = [each for each in json.loads(done.stdout)["findings"] if each["kind"] == "Spark Connect"]
    assert (done.returncode, of_spark["severity"]) == (3, "wrong")
    assert re.search(said, f"{of_spark['text']}. {of_spark['advice']}")
    assert "hush-hush" not in done.stdout + done.stderr
