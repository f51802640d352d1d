"""The command `walferry` and Airflow's, as an operator of the demo calls them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from demo.state import REPO
from embedded.processes import ClusterError

TIMEOUT_SECONDS = 300


def walferry(
    connection: str, *arguments: str, may_end_with: tuple[int, ...] = (0,), of_airflow: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Run an operator's command, with Airflow's environment if it needs Airflow; what it printed.

    Raises ClusterError if it ends with another status, or not in time.
    """
    environment = {**os.environ, **of_airflow, "AIRFLOW_CONN_HBASE_SOURCE": connection, "PYTHONPATH": str(REPO / "plugins")}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "walferry.cli", *arguments],
            env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`walferry {' '.join(arguments)}` did not end within {TIMEOUT_SECONDS} s") from error
    if done.returncode not in may_end_with:
        reported = (done.stdout + done.stderr).rstrip()
        why = reported.splitlines()[-1] if reported else "it printed nothing"
        raise ClusterError(f"`walferry {' '.join(arguments)}` failed with code {done.returncode}: {why}", reported)
    return done.stdout


def as_json(connection: str, *arguments: str, may_end_with: tuple[int, ...] = (0, 3)) -> Any:
    """What a command prints with --json. By default it may find something that is stuck."""
    return json.loads(walferry(connection, *arguments, "--json", may_end_with=may_end_with))


def shell() -> str:
    """What people type in a terminal, whatever its PATH, for a shell in which `walferry` and `airflow` are commands."""
    return f"cd {shlex.quote(str(REPO))} && {shlex.quote(os.path.relpath(sys.executable, REPO))} -m demo.run bash"


def environment(folder: Path, of_airflow: Mapping[str, str]) -> dict[str, str]:
    """What commands need besides their own environment. `walferry` and `airflow` are on their PATH then."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "walferry"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m walferry.cli "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(folder), of_airflow["PATH"]])
    return {**of_airflow, "PATH": path, "PYTHONPATH": os.pathsep.join([str(REPO), str(REPO / "plugins")])}
