"""The output of spark-submit: which lines are warnings, and the report on a failed job."""

from __future__ import annotations

import time

import pytest

from walferry.airflow.hooks.spark_output import Application, Levelled, application_in, failure, not_started
from walferry.initial_snapshot.job import CopyRun
from walferry.replay.replay_run import ReplayRun
from walferry.shipping.ship_run import ShipRun
from walferry.verification.verify_run import VerifyRun

WARNING = "26/11/23 16:00:00 WARN TaskSetManager: Lost task 0.0 in stage 0.0"


class Logger:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def info(self, event: str, *args: object) -> None:
        self.lines.append(("info", event % args if args else event))

    def warning(self, event: str) -> None:
        self.lines.append(("warning", event))

    def error(self, event: str) -> None:
        self.lines.append(("error", event))


def test_a_line_is_logged_at_the_level_that_spark_gives_it() -> None:
    logger = Logger()
    levelled = Levelled(logger)
    for line in (WARNING, WARNING.replace("WARN", "ERROR"), WARNING.replace("WARN", "INFO"), "WARN of mine: 100 %"):
        levelled.info(line)
    levelled.info("application %s", "a_1")
    levelled.warning("no driver")
    assert [level for level, _ in logger.lines] == ["warning", "error", "info", "info", "info", "warning"]
    assert logger.lines[0][1] == WARNING
    assert logger.lines[4][1] == "application a_1"


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        ("JAVA_HOME is not set", "Spark finds no Java. Install a JDK (17 or newer)"),
        ("/x/bin/spark-class: line 71: /no/bin/java: No such file or directory", "Spark finds no Java."),
        ('Exception in thread "main" java.lang.UnsupportedClassVersionError: …', "Java is too old for Spark."),
        ("pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python …", "another Python than the driver"),
        ('java.io.IOException: Cannot run program "python3.99": error=2', "Spark finds no such Python."),
        ("ModuleNotFoundError: No module named 'numba'", "lacks a package that the library needs. Send the packages"),
        ('Caused by: java.io.IOException: Cannot run program "./environment/bin/python": error=2', "walferry pack --python PATH"),
        ("Error: Master must either be yarn or start with spark, k8s, or local", "Spark knows no such master."),
        ("/x/find-spark-home: line 40: python3.99: command not found", "Spark finds no such Python."),
        ("org.apache.spark.SparkException: All masters are unresponsive!", "Spark's master cannot be reached."),
        ("java.lang.OutOfMemoryError: Java heap space", "Memory has run out."),
    ],
    ids=range(11),
)  # fmt: skip
def test_what_beginners_meet_is_told_with_what_to_do(said: str, reported: str) -> None:
    text = failure(["…", said, "\tat org.apache.spark.Main.main(Main.scala:1)"])
    assert reported in text
    assert text.endswith(f"Spark says: {said}")


def test_of_other_failures_the_last_error_is_told_not_a_line_of_its_trace() -> None:
    python = ["Traceback (most recent call last):", '  File "job.py", line 3, in f', "    g()", "ValueError: no", "bye"]
    assert failure(python) == "The Spark job has failed: ValueError: no"
    java = ["org.apache.SparkException: Aborted", "\tat a.b.C.d(C.java:1)", "Caused by: java.io.IOException: gone", "\tat x"]
    assert failure(java) == "The Spark job has failed: Caused by: java.io.IOException: gone"


def test_our_own_jobs_end_with_words() -> None:
    assert failure([WARNING, "nothing is shipped: peer p: there is no such peer", ""]) == (
        "The Spark job has failed: nothing is shipped: peer p: there is no such peer"
    )
    assert failure([]) == ""


def test_what_a_peer_cluster_says_or_spark_has_overcome_is_not_taken_for_why_the_job_failed() -> None:
    ours = "nothing is compared: peer p: rs1: java.io.IOException: java.lang.OutOfMemoryError: Java heap space"
    overcome = "26/11/23 16:00:00 WARN StandaloneAppClient: Failed to connect to master m:7077"
    assert failure([overcome, ours]) == f"The Spark job has failed: {ours}"
    assert failure([overcome, "t: region r: no such table"]) == "The Spark job has failed: t: region r: no such table"
    assert "cannot be reached" in failure([overcome.replace("WARN", "ERROR")])


def test_the_words_with_which_each_of_our_jobs_ends_are_known() -> None:
    for words in {job.nothing_done for job in (ShipRun, ReplayRun, CopyRun, VerifyRun)}:
        assert failure([f"{words}: OutOfMemoryError", "later"]) == f"The Spark job has failed: {words}: OutOfMemoryError"


def test_a_result_for_programs_is_no_reason() -> None:
    assert failure(["t: no region", '{"complete": false}', "[]", '[{"group": "g"}]']) == "The Spark job has failed: t: no region"
    assert failure(["[]"]) == ""


@pytest.mark.parametrize("status", [-9, 137])
def test_a_job_that_was_killed_is_told(status: int) -> None:
    text = failure(["group g: 3 WALs shipped"], status)
    assert text.startswith("spark-submit was killed by signal 9. If nobody did that, the machine may have run out of memory")
    assert text.endswith("Its last line was: group g: 3 WALs shipped")
    assert failure([], status)
    assert failure(["no"], 255) == "The Spark job has failed: no"


def test_no_line_holds_the_task_up() -> None:
    began = time.monotonic()
    failure(["env: " * 20_000 + "python" * 20_000] * 20)
    assert time.monotonic() - began < 2


def test_a_spark_submit_that_is_not_there_is_told() -> None:
    text = not_started(FileNotFoundError(2, "No such file or directory", "spark-submit"))
    assert text.startswith("spark-submit cannot be started: [Errno 2] No such file or directory: 'spark-submit'. Install")


def test_what_spark_warns_of_after_an_error_is_not_its_reason() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "load.py", line 1',
        "walferry.load.errors.NotLoaded: row 1 came out with other bytes",
        "26/11/23 16:00:00 WARN ShutdownHookManager: deleting a folder",
    ]
    assert failure(lines).endswith("NotLoaded: row 1 came out with other bytes")


@pytest.mark.parametrize(
    "url", ["http://rm:8088/proxy/application_17_0001/", "https://rm.example.org:8090/proxy/application_17_0001"]
)
def test_an_application_on_yarn_is_known_by_its_address(url: str) -> None:
    for line in (f"tracking URL: {url}", f"\t tracking URL: {url}"):
        assert application_in(line) == Application("application_17_0001", url)
    assert Application("application_17_0001", url).logs.endswith("yarn logs -applicationId application_17_0001")
    assert Application().logs == ""


@pytest.mark.parametrize(
    "line",
    [
        "tracking URL: N/A",
        "tracking URL: javascript:alert(1)//application_17_0001/",
        "tracking URL: http://me:secret@rm/proxy/application_17_0001/",
        "tracking URL: http://rm/application_17_0001/?x=<b>",
        "tracking URL: http://rm/application_17_0001/ and more",
        "shipped tracking URL: http://rm/proxy/application_17_0001/",
        "tracking URL: http://rm/proxy/application_" + "1" * 5000 + "_1/",
        "application_17_0001",
    ],
)
def test_nothing_else_names_an_application(line: str) -> None:
    assert application_in(line) is None
