"""containers/make_env.py: an .env of one's own."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

REPO = Path(__file__).resolve().parents[3]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A folder with what the script needs."""
    (tmp_path / "containers").mkdir()
    shutil.copy(REPO / "containers" / "make_env.py", tmp_path / "containers")
    shutil.copy(REPO / ".env.example", tmp_path)
    return tmp_path


def _made(repo: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, repo / "containers" / "make_env.py"], capture_output=True, text=True, check=False)


def _values(env: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in env.read_text().splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}


def test_each_empty_value_becomes_a_secret_of_its_own(repo: Path) -> None:
    assert _made(repo).returncode == 0
    example, made = _values(repo / ".env.example"), _values(repo / ".env")
    secrets = [made[name] for name, value in example.items() if not value]
    assert min(len(secret) for secret in secrets) >= 44
    assert len(set(secrets)) == len(secrets) == 7
    assert {name: value for name, value in made.items() if example[name]} == {n: v for n, v in example.items() if v}
    Fernet(made["AIRFLOW_FERNET_KEY"])


def test_nobody_else_can_read_it(repo: Path) -> None:
    assert _made(repo).returncode == 0
    assert stat.S_IMODE((repo / ".env").stat().st_mode) == 0o600


def test_secrets_are_not_printed(repo: Path) -> None:
    done = _made(repo)
    made = _values(repo / ".env")
    assert [secret for secret in made.values() if len(secret) >= 44 and secret in done.stdout + done.stderr] == []


def test_one_that_is_there_stays(repo: Path) -> None:
    (repo / ".env").write_text("POSTGRES_PASSWORD=in-use\n")
    done = _made(repo)
    assert done.returncode == 1
    assert "is there already" in done.stderr
    assert (repo / ".env").read_text() == "POSTGRES_PASSWORD=in-use\n"


def test_it_is_kept_out_of_version_control_and_of_the_image() -> None:
    assert ".env" in (REPO / ".gitignore").read_text().split()
    assert (REPO / ".dockerignore").read_text().splitlines()[1] == "*"
