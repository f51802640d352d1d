"""A page or a command that asks for a status does not wait for what only reading WALs needs."""

from __future__ import annotations

import subprocess
import sys

SLOW = ("numba", "numpy", "pyarrow", "pyspark", "airflow", "hdfs_native")


def test_the_package_is_imported_without_what_is_slow_to_import() -> None:
    code = (
        "import sys, walferry.observe.status.statuses, walferry.observe.status.history; "
        f"print([name for name in {SLOW!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.strip() == "[]"
