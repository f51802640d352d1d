"""Each of Airflow's processes imports the plugin, so its imports must cost nothing."""

from __future__ import annotations

import subprocess
import sys

SLOW = (
    "airflow", "fastapi", "starlette", "jinja2", "kazoo", "numpy", "numba", "pyarrow",
    "walferry.observe.status", "walferry.hbase",
)  # fmt: skip


def test_what_the_plugin_imports_of_the_page_loads_nothing_else() -> None:
    code = f"import sys, walferry.airflow.page.mounted; print([name for name in {SLOW!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.strip() == "[]"
