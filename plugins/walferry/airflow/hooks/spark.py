"""spark-submit as this project runs it: found next to Python, local by default, quiet, and ended with all of its processes."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from walferry.airflow.hooks.spark_output import Application, Levelled, application_in
from walferry.base.hosts import unreachable
from walferry.jobs.archive_entry import cache_folder
from walferry.jobs.quick_start import quick_start
from walferry.jobs.session_settings import kerberos_settings

LOCAL_MASTER = "local[*]"
TERMINATION_SECONDS = 3.0  # Airflow kills a task 5 s after asking it to end
QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
# A local job is one process for one batch. It does not listen on the network and looks for no port.
LOCAL = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Otherwise spark-submit would end, and the task with it, once a cluster has taken a job whose driver it runs.
AWAITED = {"spark.yarn.submit.waitAppCompletion": "true", "spark.kubernetes.submission.waitAppCompletion": "true"}
MAX_COMMAND_BYTES = 96 << 10  # a shell gets the whole command as one argument, for which Linux allows 128 KiB
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


class WalferrySubmitHook(SparkSubmitHook):
    """Runs spark-submit as the provider's SparkSubmitHook does, with settings of this project.

    Settings of Spark in the connection's extra override these.

    :param conf: settings of Spark that override both
    :param conn_id: the connection, of type `spark`
    """

    def __init__(self, *, conf: dict[str, Any], conn_id: str, **kwargs: Any) -> None:
        conf = {**_settings_in(self.get_connection(conn_id)), **conf}
        try:
            super().__init__(conf=conf, conn_id=conn_id, **kwargs)
        except (NameError, RuntimeError) as error:  # a name that the provider does not have without that package
            raise AirflowException(
                "Airflow's Spark provider needs the package apache-airflow-providers-cncf-kubernetes for a master k8s://…. "
                "Install it where the task runs"
            ) from error
        local = self._connection["master"].startswith("local")
        # Otherwise spark-defaults.conf might choose another mode than the one that this class and the provider go by.
        self._connection["deploy_mode"] = self._connection["deploy_mode"] or conf.get("spark.submit.deployMode", "client")
        here = LOCAL if local else self._driver_here()
        self._conf = {**QUIET, **here, **kerberos_settings(os.environ), **conf, **AWAITED}
        self._env_vars = {**self._environment(local), **(self._env_vars or {})}
        self.application = Application()  # once YARN has it

    @classmethod
    def get_connection(cls, conn_id: str) -> Any:
        """Return the connection, or Spark on this machine if the connection does not exist (the provider would use YARN)."""
        try:
            return super().get_connection(conn_id)
        except AirflowNotFoundException:
            return Connection(conn_id=conn_id, conn_type="spark", host=LOCAL_MASTER)

    @classmethod
    def may_run_drivers(cls, conn_id: str) -> bool:
        """Return whether the connection's cluster may run a job's driver itself: YARN and Kubernetes do in cluster mode."""
        master = str(cls(conf={}, conn_id=conn_id)._connection["master"])
        return not master.startswith(("local", "spark://"))

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run spark-submit to its end. On Linux it also ends when this process is killed without notice.

        Otherwise the job would go on by itself, and the task's next try would find it holding all queues. Raises AirflowException
        if the job fails, or at once if no master of a standalone cluster can be reached: Spark tries for a minute.
        """
        if why := unreachable(_standalone_masters(self._connection["master"])):
            advice = f"Correct host and port of the connection {self._conn_id}, or start the master"
            raise AirflowException(f"Spark's master cannot be reached: {why}. {advice}")
        size = sum(len(part) for part in self._application_args or ())
        if self._runs_on_yarn and self._connection["deploy_mode"] == "cluster" and size > MAX_COMMAND_BYTES:
            raise AirflowException(
                f"the job has {size} bytes, and YARN starts a driver by one command of at most {MAX_COMMAND_BYTES}. Leave "
                f"cluster mode out of the connection {self._conn_id}: then the driver runs here"
            )
        environment = {**os.environ, **self._home()}  # the provider replaces it if it has variables of its own
        return super().submit(application, preexec_fn=_end_with_parent, env=environment, errors="replace", **kwargs)

    def on_kill(self) -> None:
        """End spark-submit, and give it some time to remove its temporary files."""
        process = self._submit_sp
        if process and process.poll() is None:
            process.terminate()
            try:
                process.wait(TERMINATION_SECONDS)
            except subprocess.TimeoutExpired:
                self.log.warning("spark-submit (pid %s) did not end within %g s", process.pid, TERMINATION_SECONDS)
        try:
            super().on_kill()
        except OSError as error:  # the command `yarn` is missing here: an application without its task ends by itself
            self.log.info("%s", error)

    @property
    def last_lines(self) -> Sequence[str]:
        """Return the end of spark-submit's output without secrets: from the first exception on, if there was one."""
        return tuple(self._mask_cmd([line]) for line in self._last_submit_log_lines)

    @property
    def status(self) -> int:
        """Return the exit status of spark-submit; 0 if it has not ended."""
        return (self._submit_sp.poll() or 0) if self._submit_sp else 0

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        """Log the output of spark-submit. Spark's warnings are warnings here, too; the provider logs all lines as INFO."""
        logger, self._log = self.log, Levelled(self.log)
        try:
            super()._process_spark_submit_log(self._noted(itr))
        finally:
            self._log = logger

    def _noted(self, lines: Iterator[Any]) -> Iterator[Any]:
        """Note the application that the first lines name: a job begins later, and its lines may have a cluster's words."""
        for line in lines:
            if self._runs_on_yarn and not self.application.id and (found := application_in(line.rstrip())) is not None:
                self.application = found
            yield line

    @property
    def _runs_on_yarn(self) -> bool:
        return str(self._connection["master"]).startswith("yarn")

    def _home(self) -> dict[str, str]:
        """Return where pip's spark-submit finds Spark. By itself it would ask any `python3` of the PATH."""
        spec = find_spec("pyspark") if self._is_pip_s() and "SPARK_HOME" not in os.environ else None
        return {"SPARK_HOME": str(Path(spec.origin).parent)} if spec is not None and spec.origin else {}

    def _is_pip_s(self) -> bool:
        binary = self._get_spark_binary_path()[0]
        return Path(shutil.which(binary) or binary).parent == Path(sys.executable).parent

    def _driver_here(self) -> dict[str, str]:
        """Return the setting for the Python of a driver on this machine: otherwise that of the executors counts, if it is set."""
        if self._connection["deploy_mode"] == "cluster":
            return {}
        return {"spark.pyspark.driver.python": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable)}

    def _environment(self, local: bool) -> dict[str, str]:
        if not local or self._connection["deploy_mode"] == "cluster":
            return {}
        python = os.environ.get("PYSPARK_PYTHON", sys.executable)
        quick = quick_start(cache_folder(), os.environ) if self._is_pip_s() and python == sys.executable else {}
        return {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1", **quick}

    def _get_spark_binary_path(self) -> list[str]:
        binary = self._connection["spark_binary"]
        beside_python = Path(sys.executable).with_name(binary)
        if shutil.which(binary) is None and beside_python.exists():
            return [str(beside_python)]
        return [binary]


def _settings_in(connection: Connection) -> dict[str, str]:
    """Return the settings of Spark in a connection's extra, in which a number or `true` may be one of JSON."""
    settings = {name: value for name, value in connection.extra_dejson.items() if name.startswith("spark.")}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}


def _standalone_masters(url: str) -> list[tuple[str, int]]:
    """Return host and port of each master in spark://host:port,host:port; none for other masters, and for invalid ones."""
    found = [re.fullmatch(r"(.+):(\d{1,5})", server) for server in url.removeprefix("spark://").split(",")]
    return [(each[1], int(each[2])) for each in found if each] if url.startswith("spark://") and all(found) else []


def _end_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
