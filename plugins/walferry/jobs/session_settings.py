"""Spark's settings: for a shuffle of ours, and what a job gets of the environment of the process that submits it. And when
another task is worth its while.
"""

from __future__ import annotations

from collections.abc import Mapping

# What is worth another Python worker, which takes half a second of CPU before it does anything: on executors of a cluster, which
# have cores of their own, and where tasks share a machine.
CLUSTER_BYTES, MACHINE_BYTES = 1 << 20, 64 << 20
SHUFFLE_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),  # that go to a Python worker at once: rows are of some megabytes
    "spark.sql.adaptive.enabled": "false",  # nothing is known of the runs that could be of use to it
    # Spark would hash each row to find tasks that yield something else when they are run again. Ours count their runs.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}
KRB5_CONFIG = "KRB5_CONFIG"
# By these each kind of cluster is told the environment of executors, and of drivers that it runs.
ELSEWHERE = ("spark.executorEnv", "spark.yarn.appMasterEnv", "spark.kubernetes.driverEnv")


def kerberos_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings by which a job finds the realms' KDCs as this process does. A driver that runs here inherits the variable.

    It is the path of krb5.conf, which must be there on the executors too. Without it theirs is /etc/krb5.conf.
    """
    path = environ.get(KRB5_CONFIG)
    return {f"{prefix}.{KRB5_CONFIG}": path for prefix in ELSEWHERE} if path else {}
