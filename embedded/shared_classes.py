"""Archives of loaded classes, which JVMs map instead of loading thousands of classes each.

They halve the time in which an HBase server or a Spark job starts, and the tests start hundreds of them.

dump_classes.py makes the archives. Everything starts without them too.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from embedded.cache import cache_home
from embedded.jars import JarSet, hbase_classpath
from embedded.java import find_java, java_version

ARCHIVE = "classes.jsa"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # compiling well would take longer than such a JVM lives


def shared_classes(jars: JarSet) -> list[str]:
    """The options by which a JVM maps the archive of `jars`; none if there is no archive."""
    archive = archive_folder(jars) / ARCHIVE
    return [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


def spark_environment() -> dict[str, str]:
    """Variables by which spark-submit starts JVMs for short jobs: with the archive, if there is one, and little compiling."""
    archive = spark_archive_folder() / ARCHIVE
    mapped = f" -XX:SharedArchiveFile={archive}" if archive.is_file() else ""
    return {**spark_home(), "SPARK_SUBMIT_OPTS": SHORT_LIVED + mapped, "SPARK_LAUNCHER_OPTS": SHORT_LIVED}


def jars_on_class_path(jars: JarSet) -> str:
    """How the class path begins: the archive holds for no other beginning. The folder, so that `ps` stays readable."""
    return f"{hbase_classpath(jars)[0].parent}/*"


@functools.cache
def archive_folder(jars: JarSet) -> Path:
    """Where the archive of `jars` lies, if it is made."""
    return _archive_of(jars_on_class_path(jars))


@functools.cache
def spark_archive_folder() -> Path:
    """Where the archive for Spark's jobs lies, if it is made."""
    import pyspark

    return _archive_of(f"pyspark {pyspark.__version__} in {spark_home()}")


def spark_home() -> dict[str, str]:
    """The home that jobs run from: an archive holds for one path of the jars."""
    from walferry.jobs.quick_start import quick_start  # clusters alone run without the library

    return {name: value for name, value in quick_start(cache_home(), {}).items() if name == "SPARK_HOME"}


def _archive_of(what: str) -> Path:
    key = f"{what}\n{find_java()}\n{java_version()}"
    return cache_home() / f"shared-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
