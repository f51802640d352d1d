"""Finds the job that a command line of spark-submit names, for tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

RUN_JOB = Path(__file__).resolve().parents[2] / "spark_jobs" / "run_job.py"


@cache
def run_job() -> ModuleType:
    """Return the script that Spark runs, as a module."""
    spec = importlib.util.spec_from_file_location("run_job", RUN_JOB)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def job_in(command: Sequence[str]) -> Any:
    """Return the job of a command."""
    script = next(number for number, word in enumerate(command) if word.endswith("run_job.py"))
    kind, *parts = command[script + 1 :]
    return run_job().job_class(kind).from_json("".join(parts))
