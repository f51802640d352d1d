"""A container begins with its program's secrets, or with a refusal."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[3]
FILES = ("CONNECT_SERVER_TOKEN_FILE", "CONNECT_CLIENT_TOKEN_FILE", "SPARK_SECRET_FILE")
SHOWN = 'echo "$SPARK_CONNECT_AUTHENTICATE_TOKEN"; echo "$AIRFLOW_CONN_SPARK_CONNECT"; tail -n 1 "$SPARK_CONF_DIR"/*'


def begun(secret: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """The entrypoint with these variables, and a program that shows what it has got."""
    given = {"SPARK_CONF_DIR": str(REPO / "containers" / "spark"), "TMPDIR": str(secret.parent)}
    environment = {**os.environ, **given, **dict.fromkeys(files, str(secret))}
    command = [REPO / "containers" / "entrypoint.sh", "sh", "-c", SHOWN]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_gets_each_secret_where_it_looks_for_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3\n")
    done = begun(tmp_path / "secret", *FILES)
    token, connection, of_spark = done.stdout.splitlines()
    assert (token, json.loads(connection)["password"], of_spark) == ("s3", "s3", "spark.authenticate.secret s3")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", ["", "\n", None], ids=["empty", "an empty line", "not there"])
def test_without_a_secret_nothing_begins(name: str, content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "secret").write_text(content)
    done = begun(tmp_path / "secret", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert "has to hold a secret" in done.stderr
