"""A Spark Connect server forks its Python workers from this process, which has already imported what the library needs.

    PYTHONPATH=spark_jobs spark-submit … --conf spark.python.daemon.module=connect_daemon …

Spark ends workers that have had no job for a minute. So if a batch comes every few minutes, its first job gets a new worker,
which would take most of a second to import numba and to set up its compiler. The library itself is not imported here: it comes
with a job. pandas and pyarrow are not imported either: they begin threads, and a process with threads is not safe to fork.
"""

from __future__ import annotations

import contextlib
import importlib

from pyspark.daemon import manager

MODULES = ("numpy", "kazoo.client", "fsspec", "google.protobuf.message", "cryptography.hazmat.primitives.ciphers")


def preload() -> None:
    """Import the modules that workers need, as far as they are installed."""
    for module in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    with contextlib.suppress(ImportError):
        from numba import njit

        njit(nogil=True)(_nothing)(1)  # sets up the compiler


def _nothing(number: int) -> int:
    return number


if __name__ == "__main__":
    preload()
    manager()
