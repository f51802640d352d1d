"""Finds archives of loaded classes, which JVMs map instead of loading thousands of classes each.

An archive halves the time in which an HBase server or a Spark job starts, and the tests start hundreds of them.

dump_classes.py makes the archives. Everything also starts without them.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from embedded.cache import cache_home
from embedded.jars import JarSet, hbase_classpath
from embedded.java import find_java, java_version

ARCHIVE = "classes.jsa"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # full compilation would take longer than such a JVM lives


def shared_classes(jars: JarSet) -> list[str]:
    """Return the options that make a JVM map the archive of `jars`, or no options without an archive."""
    archive = archive_folder(jars) / ARCHIVE
    return [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


def spark_environment() -> dict[str, str]:
    """Return variables that make spark-submit start JVMs for short jobs: with any archive and little compilation."""
    archive = spark_archive_folder() / ARCHIVE
    mapped = f" -XX:SharedArchiveFile={archive}" if archive.is_file() else ""
    return {**spark_home(), "SPARK_SUBMIT_OPTS": SHORT_LIVED + mapped, "SPARK_LAUNCHER_OPTS": SHORT_LIVED}


def jars_on_class_path(jars: JarSet) -> str:
    """Return the class path's beginning, which the archive requires. It is a folder, so that `ps` stays readable."""
    return f"{hbase_classpath(jars)[0].parent}/*"


@functools.cache
def archive_folder(jars: JarSet) -> Path:
    """Return the folder of the archive of `jars`, which may not exist yet."""
    return _archive_of(jars_on_class_path(jars))


@functools.cache
def spark_archive_folder() -> Path:
    """Return the folder of the archive for Spark's jobs, which may not exist yet."""
    import pyspark

    return _archive_of(f"pyspark {pyspark.__version__} in {spark_home()}")


def spark_home() -> dict[str, str]:
    """Return the Spark home that jobs run from: an archive is valid for one path of the jars."""
    from walferry.jobs.quick_start import quick_start  # clusters alone run without the library

    return {name: value for name, value in quick_start(cache_home(), {}).items() if name == "SPARK_HOME"}


def _archive_of(what: str) -> Path:
    key = f"{what}\n{find_java()}\n{java_version()}"
    return cache_home() / f"shared-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
