"""The process from which a Spark Connect server forks its Python workers, with what the library needs imported already.

    PYTHONPATH=spark_jobs spark-submit … --conf spark.python.daemon.module=connect_daemon …

Spark ends workers that have had no job for a minute. So the first job of a batch that comes every few minutes gets a new worker,
which would take most of a second to import numba and to set up its compiler. Of the library itself nothing is imported: it comes
with a job. Neither are pandas and pyarrow, because they begin threads, and a process with threads is not safe to fork.
"""

from __future__ import annotations

import contextlib
import importlib

from pyspark.daemon import manager

MODULES = ("numpy", "kazoo.client", "fsspec", "google.protobuf.message", "cryptography.hazmat.primitives.ciphers")


def preload() -> None:
    """Import what workers need, as far as it is installed."""
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
