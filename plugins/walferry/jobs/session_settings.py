"""Spark's settings for a job's environment, and the sizes from which another task pays off."""

from __future__ import annotations

from collections.abc import Mapping

# Bytes that pay for another Python worker, which takes half a second of CPU to start: on a cluster, whose executors
# have their own cores, and where tasks share a machine.
CLUSTER_BYTES, MACHINE_BYTES = 1 << 20, 64 << 20
KRB5_CONFIG = "KRB5_CONFIG"
# Settings by which each kind of cluster learns the environment of drivers that it runs, and of executors.
DRIVERS_ELSEWHERE = ("spark.yarn.appMasterEnv", "spark.kubernetes.driverEnv")
ELSEWHERE = ("spark.executorEnv", *DRIVERS_ELSEWHERE)


def kerberos_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings that make a job find the realms' KDCs as this process does. A driver here inherits the variable.

    KRB5_CONFIG is the path of krb5.conf, which must exist on the executors too. Without it they use /etc/krb5.conf.
    """
    path = environ.get(KRB5_CONFIG)
    return {f"{prefix}.{KRB5_CONFIG}": path for prefix in ELSEWHERE} if path else {}
