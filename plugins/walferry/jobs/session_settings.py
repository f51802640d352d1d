"""Spark's settings for a shuffle of ours, and when another task is worth its while."""

from __future__ import annotations

# What is worth another Python worker, which takes half a second of CPU before it does anything: on executors of a cluster, which
# have cores of their own, and where tasks share a machine.
CLUSTER_BYTES, MACHINE_BYTES = 1 << 20, 64 << 20
SHUFFLE_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),  # that go to a Python worker at once: rows are of some megabytes
    "spark.sql.adaptive.enabled": "false",  # nothing is known of the runs that could be of use to it
    # Spark would hash each row to find tasks that yield something else when they are run again. Ours count their runs.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}
