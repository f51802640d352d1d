"""Reads the output of spark-submit: the level of each log line, and why a job failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walferry.base.texts import one_line
from walferry.jobs.environment import NAME, PYTHON

MAX_LINE_CHARS = 1000
# As Spark's log4j2.properties formats it: 26/11/23 16:00:00 WARN TaskSetManager: …
_LEVEL = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d (WARN|ERROR|FATAL) ")
_METHODS = {"WARN": "warning", "ERROR": "error", "FATAL": "error"}
_ERROR = re.compile(r"^(?:Caused by: |Exception in thread \"[^\"]*\" )?[A-Za-z_][\w.$]*(?:Error|Exception)\b")
_IN_A_TRACE = re.compile(r"^\s*(?:at |\.\.\. \d+ more|File \"|Traceback |[\^~]+\s*$)")
_GOES_ON = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?!ERROR |FATAL )")  # a line of Spark's that is not the cause
# Our own jobs end with this (walferry.jobs.submitted): the peer cluster's words behind it are not Spark's.
_OURS = re.compile(r"^(?:nothing is shipped|nothing is compared|the initial snapshot has stopped): ")
# As YARN's client prints it in cluster mode, and our own driver in client mode (walferry.jobs.submitted).
_TRACKED = re.compile(r"\s*tracking URL: (https?://[\w.:\[\]-]{1,300}/[\w./-]{0,300}(application_\d{1,20}_\d{1,10})/?)", re.ASCII)
_JSON = ("{", "[{", "[]")  # a result, for programs
_KILLED, MAX_SIGNAL = 128, 64  # a shell adds the number of a signal
# Failures that beginners meet first: Spark's message, and what to do.
_KNOWN = (
    (
        re.compile(r"JAVA_HOME is not set|java: (?:command )?not found|[/ ]java: No such file|Unable to locate a Java"),
        "Spark finds no Java. Install a JDK (17 or newer) where the task runs, and set JAVA_HOME in Airflow's environment",
    ),
    (
        re.compile(r"UnsupportedClassVersionError"),
        "Java is too old for Spark. Install a JDK (17 or newer) where the task runs, and let JAVA_HOME name it",
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH|Python in worker has different version"),
        "The executors run another Python than the driver. Let spark.pyspark.python, or PYSPARK_PYTHON in Airflow's environment, "
        "name a Python of the driver's minor version on each of them, or send them one with spark.archives",
    ),
    (
        re.compile(rf"Cannot run program \"{re.escape(PYTHON)}"),
        "The executors have no packed environment, or not the Python that it needs. Let spark.archives end with "
        f"#{NAME}, and pack again with the path of Python on their machines: walferry pack --python PATH",
    ),
    (
        re.compile(r"python[\w.]*: command not found|env: [^:]*python[^:]*: No such file|Cannot run program \"[^\"]*python"),
        "Spark finds no such Python. Let PYSPARK_PYTHON, in Airflow's environment, or spark.pyspark.python name one that is "
        "there: on the executors, and where the task runs if the master is local",
    ),
    (
        re.compile(r"ModuleNotFoundError: No module named"),
        "The executors' Python lacks a package that the library needs. Send the packages, which `walferry pack` packs, by "
        "spark.archives, or let spark.pyspark.python name a Python that has them: those of Walferry's extra `spark`",
    ),
    (
        re.compile(r"Master must either be|Could not parse Master URL"),
        "Spark knows no such master. Correct the host of the connection spark_default: it is local[*], yarn, or begins with "
        "spark:// or k8s://",
    ),
    (
        re.compile(r"All masters are unresponsive|Failed to connect to master"),
        "Spark's master cannot be reached. Correct host and port of the connection spark_default, or start the master",
    ),
    (
        re.compile(r"OutOfMemoryError|There is insufficient memory for the Java Runtime"),
        "Memory has run out. Give Spark more by spark.driver.memory or spark.executor.memory, or the machine less to do",
    ),
)


@dataclass(frozen=True)
class Application:
    """An application on YARN, and the address that leads to its UI, or to its history."""

    id: str = ""
    url: str = ""

    @property
    def logs(self) -> str:
        """A sentence about the logs of executors and drivers that run on the cluster; empty without an application."""
        return f". For the logs of all its processes: yarn logs -applicationId {self.id}" if self.id else ""


def application_in(line: str) -> Application | None:
    """Return the application that a line of spark-submit's output names with its address."""
    found = _TRACKED.fullmatch(line)
    return Application(found[2], found[1]) if found else None


class Levelled:
    """Wraps a task's logger, and logs a line of Spark's as a warning or an error if Spark says so."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def info(self, event: str, *args: Any) -> None:
        """Log a line."""
        found = None if args else _LEVEL.match(event)
        if found is None:
            self._logger.info(event, *args)
        else:
            getattr(self._logger, _METHODS[found[1]])(event)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)


def failure(lines: Sequence[str], status: int = 1) -> str:
    """Return why a job failed, from the end of its output and the exit status; empty if neither gives a reason.

    The reason is our own job's message, or the advice for a known failure, or the last error in the output, or its last line.
    """
    text = [stripped[:MAX_LINE_CHARS] for line in lines if (stripped := line.strip()) and not stripped.startswith(_JSON)]
    reported = [line for line in text if not _IN_A_TRACE.match(line)] or text
    signal = -status if status < 0 else status - _KILLED
    if 0 < signal <= MAX_SIGNAL:
        last = f". Its last line was: {one_line(reported[-1], MAX_LINE_CHARS)}" if reported else ""
        return f"spark-submit was killed by signal {signal}. If nobody did that, the machine may have run out of memory{last}"
    if not text:
        return ""
    if ours := next((line for line in reversed(reported) if _OURS.match(line)), None):
        return f"The Spark job has failed: {one_line(ours, MAX_LINE_CHARS)}"
    for pattern, advice in _KNOWN:
        if found := next((line for line in text if pattern.search(line) and not _GOES_ON.match(line)), None):
            return f"{advice}. Spark says: {one_line(found, MAX_LINE_CHARS)}"
    reported = [line for line in reported if not _GOES_ON.match(line)] or reported
    last = reported[-1]
    if not _ERROR.match(last) and any(_IN_A_TRACE.match(line) for line in text):
        last = next((line for line in reversed(reported) if _ERROR.match(line)), last)
    return f"The Spark job has failed: {one_line(last, MAX_LINE_CHARS)}"


def not_started(error: OSError) -> str:
    """Return the error text for a spark-submit that cannot be started."""
    return (
        f"spark-submit cannot be started: {one_line(str(error), MAX_LINE_CHARS)}. Install Walferry's extra `spark` where the "
        "task runs, or have spark-submit on its PATH"
    )
