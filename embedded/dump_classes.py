"""`python -m embedded.dump_classes` makes the archives of shared_classes.py, once for each release of HBase, Spark and Java."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded.cache import filled_once
from embedded.classic import classic_options
from embedded.client import GLOBAL, ClientJvm
from embedded.distributed import ClusterOptions, DistributedClusters
from embedded.jars import HBASE_1, HBASE_2, JarSet
from embedded.java import JavaMissingError, find_java, jvm_options
from embedded.shared_classes import ARCHIVE, SHORT_LIVED, archive_folder, jars_on_class_path, spark_archive_folder, spark_home

DUMP_TIMEOUT_SECONDS = 300
SPARK_JOB = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.sparkContext.parallelize(range(4), 2).map(lambda number: number * 2).collect() == [0, 2, 4, 6]
assert spark.range(4).filter("id > 1").count() == 2
spark.stop()
"""
LAUNCHER_OPTIONS = "JDK_JAVA_OPTIONS"  # the variable from which `java` takes more options


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

    return filled_once(archive_folder(jars), fill)


def make_spark_archive() -> Path:
    """Run a small Spark job, and archive the classes that it loads. Returns the folder of the archive."""

    def fill(folder: Path) -> None:
        print("Spark: archiving the classes that a job loads (once)", file=sys.stderr, flush=True)
        job = folder / "job.py"
        job.write_text(SPARK_JOB)
        options = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={folder / ARCHIVE}"
        done = subprocess.run(
            [Path(sys.executable).with_name("spark-submit"), job],
            env={**os.environ, **spark_home(), "SPARK_SUBMIT_OPTS": options},
            capture_output=True,
            text=True,
            timeout=DUMP_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not (folder / ARCHIVE).is_file():
            raise JavaMissingError(f"spark-submit failed with code {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")

    return filled_once(spark_archive_folder(), fill)


@contextmanager
def _listing_classes(folder: Path) -> Iterator[None]:
    """Make each JVM that starts during the block list the classes that it loads, in a file of its own."""
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
    options = classic_options(regionservers=1) if jars is HBASE_1 else ClusterOptions(regionservers=1)
    with DistributedClusters(folder, {"recorded": options}) as clusters, ClientJvm(folder / "client") as jvm:
        client = jvm.client(clusters["recorded"].address)
        client.create_table("t", {"f": GLOBAL})
        client.put_many("t", 10, ["f:q"])
        client.roll_wals()


def _merged(lists: Iterable[Path]) -> list[str]:
    """Return the lines of all lists, each once. The last line of a killed JVM may be only half a line."""
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
