"""Imports what the DAGs' tasks need, for a process that forks the tasks' processes: these then import nothing of it again.

A line `import walferry.airflow.preload` in Airflow's own `airflow_local_settings.py` is enough. numpy, numba, gRPC and pyarrow
are left out: few tasks use them, and some of them begin threads, which do not survive a fork.
"""

from __future__ import annotations

from airflow.sdk import DAG, task_group  # noqa: F401

import walferry.airflow.source_dags
import walferry.airflow.tasks.batch
import walferry.airflow.tasks.recovery
import walferry.airflow.triggers.closed_wals
import walferry.replication.sinks.of_peer
import walferry.runs.steps.batch
import walferry.runs.steps.recovery  # noqa: F401

DAG(dag_id="preload", schedule="@daily")  # Airflow imports some of its own modules only now
