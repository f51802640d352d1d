"""The process that tasks are forked from, as by Airflow's executor: it has imported Airflow, and nothing of the library.

    bench/executor.py [module]      a module to import before, as Airflow does with its local settings

bench.task starts this file, and writes it a task as a line of JSON. It forks the task and prints its pid, and at its end another
line. The next line that it reads lets the ended process go; then it prints the exit code and the CPU-seconds. A task imports the
DAG's file, calls a function and ends, so all that it imports counts.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]


class TaskInstance:
    """As much of Airflow's task instance as the operators ask for."""

    dag_id, task_id, try_number, map_index = "bench", "peer.ship", 1, -1

    def __init__(self, run_id: str, plans: Mapping[str, Any] | None = None) -> None:
        """`plans` are those of the run's other peers."""
        self.run_id = run_id
        self._plans = plans or {}

    def xcom_push(self, key: str, value: Any) -> None:
        """What a report would say: a job that went another way than it should have must not count."""
        if key != "made_along":
            raise RuntimeError(f"{key}: {value}")

    def xcom_pull(self, task_ids: str, map_indexes: int = 0) -> Any:
        """The run's other peers, or the plan of one of them."""
        return list(self._plans) if task_ids == "peers" else list(self._plans.values())[map_indexes]

    def get_task_states(self, **_: Any) -> dict[str, dict[str, str]]:
        """All plans are made."""
        return {self.run_id: {"plan": "success"}}


def operate(
    operator: str, fields: Mapping[str, Any], params: Mapping[str, Any], run_id: str, plans: Mapping[str, Any]
) -> None:  # fmt: skip
    """Execute an operator, which is named `module:class`. A task that skips itself has come to its end."""
    from airflow.sdk.exceptions import AirflowSkipException

    context: Any = {"params": {**params, "source_conn_id": "hbase_source"}, "ti": TaskInstance(run_id, plans)}
    task = _named(operator)(task_id="task", **fields)
    task.pre_execute(context)
    try:
        task.execute(context)
    except AirflowSkipException as skipped:
        print(skipped)


def main() -> None:
    """Fork tasks, one after the other, until there is no line any more."""
    sys.path[:1] = [str(REPO / "dags"), str(REPO / "plugins"), str(REPO)]  # in place of this file's folder
    import airflow.sdk.execution_time.task_runner  # noqa: F401

    for module in sys.argv[1:]:
        importlib.import_module(module)
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            _be_the_task(**json.loads(line))
        print(pid, flush=True)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        print("ended", flush=True)
        sys.stdin.readline()
        _, status, usage = os.wait4(pid, 0)
        print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, flush=True)


def _be_the_task(
    dag: str, function: str, arguments: Mapping[str, Any], environment: Mapping[str, str], cores: list[int] | None, log: str
) -> None:
    """What the forked process does. It does not return."""
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    try:
        os.environ.update(environment)
        if cores is not None:
            os.sched_setaffinity(0, cores)
        importlib.import_module(dag)
        _named(function)(**arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


if __name__ == "__main__":
    main()
