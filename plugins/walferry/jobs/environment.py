"""What a Spark job gets of the environment of the process that submits it, by Spark's settings."""

from __future__ import annotations

from collections.abc import Mapping

KRB5_CONFIG = "KRB5_CONFIG"
# By these each kind of cluster is told the environment of executors, and of drivers that it runs.
ELSEWHERE = ("spark.executorEnv", "spark.yarn.appMasterEnv", "spark.kubernetes.driverEnv")


def kerberos_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings by which a job finds the realms' KDCs as this process does. A driver that runs here inherits the variable.

    It is the path of krb5.conf, which must be there on the executors too. Without it theirs is /etc/krb5.conf.
    """
    path = environ.get(KRB5_CONFIG)
    return {f"{prefix}.{KRB5_CONFIG}": path for prefix in ELSEWHERE} if path else {}
