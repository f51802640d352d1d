"""`make demo` runs from a checkout, where the library is not installed and nothing says where it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.commands import shell

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(path.stem for path in (ROOT / "demo").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("module", MODULES)
def test_each_part_of_the_demo_finds_what_it_needs(module: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", f"import importlib; importlib.import_module('demo.{module}')"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_shell_that_the_demo_names_begins_in_any_terminal(tmp_path: Path) -> None:
    """Here it finds no demo, and says so: a command that is not found would be another error."""
    environment = {"PATH": "/usr/bin:/bin", "WALFERRY_DEMO_STATE": str(tmp_path / "demo.json")}
    done = subprocess.run(["bash", "-c", shell()], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.partition("(")[0]) == (1, "demo: no demo runs ")
