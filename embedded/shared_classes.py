"""Archives of loaded classes, which JVMs map instead of loading thousands of classes each.

They halve the time in which an HBase server or a Spark job starts, and the tests start hundreds of them.

`python -m embedded.shared_classes` makes the archives once for each release of HBase, Spark and Java. Everything starts
without them too.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded.cache import cache_home, filled_once
from embedded.jars import HBASE_1, HBASE_2, JarSet, hbase_classpath
from embedded.java import JavaMissingError, find_java, java_version, jvm_options

ARCHIVE = "classes.jsa"
DUMP_TIMEOUT_SECONDS = 300
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # compiling well would take longer than such a JVM lives
SPARK_JOB = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.sparkContext.parallelize(range(4), 2).map(lambda number: number * 2).collect() == [0, 2, 4, 6]
assert spark.range(4).filter("id > 1").count() == 2
spark.stop()
"""
LAUNCHER_OPTIONS = "JDK_JAVA_OPTIONS"  # the variable from which `java` takes more options


def shared_classes(jars: JarSet) -> list[str]:
    """The options by which a JVM maps the archive of `jars`; none if there is no archive."""
    archive = _folder(jars) / ARCHIVE
    return [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


def spark_environment() -> dict[str, str]:
    """Variables by which spark-submit starts JVMs for short jobs: with the archive, if there is one, and little compiling."""
    archive = _spark_folder() / ARCHIVE
    mapped = f" -XX:SharedArchiveFile={archive}" if archive.is_file() else ""
    return {**_spark_home(), "SPARK_SUBMIT_OPTS": SHORT_LIVED + mapped, "SPARK_LAUNCHER_OPTS": SHORT_LIVED}


def jars_on_class_path(jars: JarSet) -> str:
    """How the class path begins: the archive holds for no other beginning. The folder, so that `ps` stays readable."""
    return f"{hbase_classpath(jars)[0].parent}/*"


def make_archive(jars: JarSet) -> Path:
    """Run a small cluster, and archive the classes that its servers load. Returns the folder of the archive."""

    def fill(folder: Path) -> None:
        print(f"{jars.title}: archiving the classes that its servers load (once)", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="walferry-classes-") as scratch:
            with _listing_classes(Path(scratch)):
                _run_cluster(Path(scratch) / "cluster", jars)
            loaded = Path(scratch) / "loaded"
            loaded.write_text("\n".join(_merged(Path(scratch).glob("*.classes"))) + "\n")
            _dump(loaded, folder / ARCHIVE, jars)

    return filled_once(_folder(jars), fill)


def make_spark_archive() -> Path:
    """Run a small Spark job, and archive the classes that it loads. Returns the folder of the archive."""

    def fill(folder: Path) -> None:
        print("Spark: archiving the classes that a job loads (once)", file=sys.stderr, flush=True)
        job = folder / "job.py"
        job.write_text(SPARK_JOB)
        options = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={folder / ARCHIVE}"
        done = subprocess.run(
            [Path(sys.executable).with_name("spark-submit"), job],
            env={**os.environ, **_spark_home(), "SPARK_SUBMIT_OPTS": options},
            capture_output=True,
            text=True,
            timeout=DUMP_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not (folder / ARCHIVE).is_file():
            raise JavaMissingError(f"spark-submit failed with code {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")

    return filled_once(_spark_folder(), fill)


@functools.cache
def _folder(jars: JarSet) -> Path:
    return _archive_of(jars_on_class_path(jars))


@functools.cache
def _spark_folder() -> Path:
    import pyspark

    return _archive_of(f"pyspark {pyspark.__version__} in {_spark_home()}")


def _spark_home() -> dict[str, str]:
    """The home that jobs run from: an archive holds for one path of the jars."""
    from walferry.jobs.quick_start import quick_start  # clusters alone run without the library

    return {name: value for name, value in quick_start(cache_home(), {}).items() if name == "SPARK_HOME"}


def _archive_of(what: str) -> Path:
    key = f"{what}\n{find_java()}\n{java_version()}"
    return cache_home() / f"shared-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


@contextmanager
def _listing_classes(folder: Path) -> Iterator[None]:
    """Each JVM that starts meanwhile lists the classes it loads in a file of its own."""
    before = os.environ.get(LAUNCHER_OPTIONS)
    os.environ[LAUNCHER_OPTIONS] = f"-XX:DumpLoadedClassList={folder}/%p.classes"
    try:
        yield
    finally:
        if before is None:
            del os.environ[LAUNCHER_OPTIONS]
        else:
            os.environ[LAUNCHER_OPTIONS] = before


def _run_cluster(folder: Path, jars: JarSet) -> None:
    from embedded.classic import classic_options
    from embedded.client import GLOBAL, ClientJvm
    from embedded.distributed import ClusterOptions, DistributedClusters

    options = classic_options(regionservers=1) if jars is HBASE_1 else ClusterOptions(regionservers=1)
    with DistributedClusters(folder, {"recorded": options}) as clusters, ClientJvm(folder / "client") as jvm:
        client = jvm.client(clusters["recorded"].address)
        client.create_table("t", {"f": GLOBAL})
        client.put_many("t", 10, ["f:q"])
        client.roll_wals()


def _merged(lists: Iterable[Path]) -> list[str]:
    """The lines of all lists, each once. The last line of a JVM that was killed may be half a line."""
    lines = (line for found in lists for line in found.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return list(dict.fromkeys(line.rstrip("\n") for line in lines))


def _dump(loaded: Path, archive: Path, jars: JarSet) -> None:
    command = [
        str(find_java()),
        "-Xshare:dump",
        f"-XX:SharedClassListFile={loaded}",
        f"-XX:SharedArchiveFile={archive}",
        *jvm_options(),
        "-cp",
        jars_on_class_path(jars),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_TIMEOUT_SECONDS, check=False)
    if done.returncode != 0 or not archive.is_file():
        shown = (done.stdout + done.stderr)[-4000:]
        raise JavaMissingError(f"java -Xshare:dump failed with code {done.returncode}:\n{shown}")


if __name__ == "__main__":
    for each in (HBASE_2, HBASE_1):
        make_archive(each)
    make_spark_archive()
