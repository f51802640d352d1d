"""HBase and everything it runs on (ZooKeeper, HDFS, the local MapReduce runner), as jars from Maven Central.

Spark's own resolver fetches them, so nothing but Java and pyspark has to be installed. The jars of each release are kept under
`~/.cache/walferry/jars-<hash of the coordinates>`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from embedded.cache import cache_home, filled_once
from embedded.java import find_java

HBASE_VERSION = "2.6.1-hadoop3"
HADOOP_VERSION = "3.3.5"
CODECS_VERSION = "2.6.1"  # they are not there for Hadoop 3, and do not care
HBASE_1_VERSION = "1.7.2"
RESOLVE_TIMEOUT_S = 1800


class JarsMissingError(RuntimeError):
    """The jars could not be fetched."""


@dataclass(frozen=True)
class JarSet:
    """A release of HBase with all it needs at run time; `excluded` are modules (group:name) to do without."""

    version: str
    coordinates: tuple[str, ...]
    excluded: tuple[str, ...]
    megabytes: int  # to download


HBASE_2 = JarSet(
    HBASE_VERSION,
    coordinates=(
        f"org.apache.hbase:hbase-mapreduce:{HBASE_VERSION}",
        "org.slf4j:slf4j-simple:1.7.36",
        "ch.qos.reload4j:reload4j:1.2.25",  # Hadoop's metrics need classes of log4j 1
        # What HBase's VerifyReplication needs to run its job in one process.
        f"org.apache.hadoop:hadoop-mapreduce-client-jobclient:{HADOOP_VERSION}",
        f"org.apache.hadoop:hadoop-mapreduce-client-common:{HADOOP_VERSION}",
        f"org.apache.hadoop:hadoop-mapreduce-client-shuffle:{HADOOP_VERSION}",
    ),
    excluded=("org.slf4j:slf4j-reload4j",),  # one binding of slf4j is enough
    megabytes=120,
)
HBASE_1 = JarSet(
    HBASE_1_VERSION,
    coordinates=(
        f"org.apache.hbase:hbase-server:{HBASE_1_VERSION}",
        # hbase-server depends on these, and yet Spark's resolver leaves them out unless they are named.
        f"org.apache.hbase:hbase-common:{HBASE_1_VERSION}",
        f"org.apache.hbase:hbase-hadoop-compat:{HBASE_1_VERSION}",
        f"org.apache.hbase:hbase-hadoop2-compat:{HBASE_1_VERSION}",
        f"org.apache.hbase:hbase-metrics:{HBASE_1_VERSION}",
        f"org.apache.hbase:hbase-metrics-api:{HBASE_1_VERSION}",
    ),
    excluded=("jdk.tools:jdk.tools",),  # a part of old JDKs, in no repository
    megabytes=60,
)


# HBase's own codecs for values in WALs, to be put on the class path beside HBASE_2.
CODECS = JarSet(
    f"{CODECS_VERSION} (codecs)",
    coordinates=tuple(f"org.apache.hbase:hbase-compression-{codec}:{CODECS_VERSION}" for codec in ("aircompressor", "zstd")),
    excluded=("org.apache.hbase:hbase-common", "org.apache.hadoop:hadoop-common"),
    megabytes=60,
)


def hbase_classpath(jars: JarSet = HBASE_2) -> list[Path]:
    """HBase's jars, fetched at the first call (a minute or two), sorted by name."""
    digest = hashlib.sha256("\n".join(jars.coordinates + jars.excluded).encode()).hexdigest()[:16]
    return sorted(filled_once(cache_home() / f"jars-{digest}", partial(_resolve_into, jars)).glob("*.jar"))


def codec_classpath() -> list[Path]:
    """HBase's codecs for LZ4, SNAPPY and ZSTD, without what they share with HBase."""
    return [jar for jar in hbase_classpath(CODECS) if re.search("hbase-compression|aircompressor|zstd-jni", jar.name)]


def py4j_jar() -> Path:
    """The py4j jar of the installed pyspark: the Java end of `embedded.client`."""
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    if not jars:
        raise JarsMissingError(f"no py4j jar in {Path(pyspark.__file__).parent / 'jars'}: install pyspark again")
    return jars[0]


def _resolve_into(wanted: JarSet, folder: Path) -> None:
    java = find_java()
    scripts = sysconfig.get_path("scripts")
    spark_submit = Path(scripts) / "spark-submit"
    if not spark_submit.is_file():
        raise JarsMissingError(f"spark-submit is missing in {scripts}: run `make venv`")
    print(f"fetching HBase {wanted.version} and what it needs ({wanted.megabytes} MB, once)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="walferry-ivy-") as ivy:
        noop = Path(ivy) / "noop.py"
        noop.write_text("")
        command = [str(spark_submit), "--conf", f"spark.jars.ivy={ivy}", "--packages", ",".join(wanted.coordinates)]
        command += ["--exclude-packages", ",".join(wanted.excluded), str(noop)]
        # pyspark's launcher looks for `find-spark-home` and `python3` on PATH.
        env = {**os.environ, "PATH": os.pathsep.join([scripts, str(java.parent), os.environ.get("PATH", "")])}
        env["PYSPARK_PYTHON"] = sys.executable
        done = subprocess.run(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=RESOLVE_TIMEOUT_S, check=False
        )
        jars = list((Path(ivy) / "jars").glob("*.jar"))
        if done.returncode != 0 or not any("org.apache.hbase_hbase-" in jar.name for jar in jars):
            tail = "\n".join(done.stdout.splitlines()[-30:])
            raise JarsMissingError(
                f"the jars of HBase {wanted.version} could not be fetched from Maven Central, check the network:\n{tail}"
            )
        for jar in jars:
            shutil.move(jar, folder / jar.name)
