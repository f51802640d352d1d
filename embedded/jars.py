"""Lists and fetches the jars of HBase and its dependencies (ZooKeeper, HDFS, the local MapReduce runner) from Maven Central.

jars.lock names every jar with its digest. `python -m embedded.jars_lock` writes it again after a version was changed here. The
jars of each set are kept under `~/.cache/walferry/jars-<hash of their lines>`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from embedded.cache import cache_home, filled_once
from embedded.ivy import Jar, JarsMissingError, fetch

HBASE_VERSION = "2.6.1-hadoop3"
HADOOP_VERSION = "3.3.5"
CODECS_VERSION = "2.6.1"  # the codecs have no builds for Hadoop 3, and do not depend on it
HBASE_1_VERSION = "1.7.2"
PHOENIX_VERSION = "5.2.1"
YARN_VERSION = "3.4.1"
KAFKA_VERSION = "4.1.1"
PHOENIX_4_VERSION = "4.15.0-HBase-1.5"  # Maven Central has no later Phoenix 4
# The groups of which HBase's own class path has jars of other versions.
PROVIDED = ("org.apache.hbase", "org.apache.hadoop", "org.apache.zookeeper", "org.slf4j", "ch.qos.reload4j", "log4j")
LOCK = Path(__file__).parent / "jars.lock"


@dataclass(frozen=True)
class JarSet:
    """A set of jars: `coordinates` and their dependencies at run time, without `excluded` modules (group:name, or group:.*)."""

    name: str
    title: str
    coordinates: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    transitive: bool = True


HBASE_2 = JarSet(
    "hbase-2",
    f"HBase {HBASE_VERSION}",
    coordinates=(
        f"org.apache.hbase:hbase-mapreduce:{HBASE_VERSION}",
        "org.slf4j:slf4j-simple:1.7.36",
        "ch.qos.reload4j:reload4j:1.2.25",  # Hadoop's metrics need classes of log4j 1
        # HBase's VerifyReplication needs this to run its job in one process.
        f"org.apache.hadoop:hadoop-mapreduce-client-jobclient:{HADOOP_VERSION}",
        f"org.apache.hadoop:hadoop-mapreduce-client-common:{HADOOP_VERSION}",
        f"org.apache.hadoop:hadoop-mapreduce-client-shuffle:{HADOOP_VERSION}",
    ),
    excluded=("org.slf4j:slf4j-reload4j",),  # slf4j accepts only one binding
)
HBASE_1 = JarSet(
    "hbase-1",
    f"HBase {HBASE_1_VERSION}",
    coordinates=(
        f"org.apache.hbase:hbase-server:{HBASE_1_VERSION}",
        # hbase-server depends on these, but Ivy leaves them out unless they are named.
        f"org.apache.hbase:hbase-common:{HBASE_1_VERSION}",
        f"org.apache.hbase:hbase-hadoop-compat:{HBASE_1_VERSION}",
        f"org.apache.hbase:hbase-hadoop2-compat:{HBASE_1_VERSION}",
        f"org.apache.hbase:hbase-metrics:{HBASE_1_VERSION}",
        f"org.apache.hbase:hbase-metrics-api:{HBASE_1_VERSION}",
    ),
    excluded=("jdk.tools:jdk.tools",),  # a part of old JDKs that no repository has
)


def _servers(version: str, modules: Sequence[str] = (), others: Sequence[str] = ()) -> JarSet:
    """Return the jars of HBase's servers of another release. Clients and helpers are those of HBASE_2."""
    return JarSet(
        f"hbase-{version}",
        f"HBase {version}",
        coordinates=(
            *(f"org.apache.hbase:hbase-{module}:{version}" for module in ("server", *modules)),
            *others,
            "org.slf4j:slf4j-simple:1.7.36",
            "ch.qos.reload4j:reload4j:1.2.25",
        ),
        excluded=("org.slf4j:slf4j-reload4j", "org.slf4j:slf4j-log4j12", "log4j:log4j", "jdk.tools:jdk.tools"),
    )


# hbase-server 2.4 depends on these, but Ivy leaves them out unless they are named.
_OF_2_4 = ("common", "http", "zookeeper", "asyncfs", "logging", "metrics", "metrics-api", "hadoop-compat", "hadoop2-compat")
_HADOOP_OF_2_4 = tuple(f"org.apache.hadoop:hadoop-{module}:2.10.0" for module in ("common", "hdfs", "mapreduce-client-core"))
OTHER_RELEASES = (_servers("2.4.18", _OF_2_4, _HADOOP_OF_2_4), _servers("2.5.13-hadoop3"), _servers("2.6.4"))
# HBase's own codecs for values in WALs, with the libraries that they call. The class path also needs HBASE_2.
CODECS = JarSet(
    "codecs",
    f"HBase's codecs {CODECS_VERSION}",
    coordinates=(
        f"org.apache.hbase:hbase-compression-aircompressor:{CODECS_VERSION}",
        f"org.apache.hbase:hbase-compression-zstd:{CODECS_VERSION}",
        "io.airlift:aircompressor:0.27",
        "com.github.luben:zstd-jni:1.5.5-2",
    ),
    transitive=False,  # HBASE_2 contains the rest
)
# Phoenix, for the servers of HBASE_2 and for a JDBC client. The class path also needs HBASE_2.
PHOENIX = JarSet(
    "phoenix",
    f"Phoenix {PHOENIX_VERSION}",
    coordinates=(
        f"org.apache.phoenix:phoenix-core-client:{PHOENIX_VERSION}",
        f"org.apache.phoenix:phoenix-core-server:{PHOENIX_VERSION}",
        f"org.apache.phoenix:phoenix-hbase-compat-2.6.0:{PHOENIX_VERSION}",
    ),
    excluded=tuple(f"{group}:.*" for group in PROVIDED),
)
# Phoenix 4, for HBASE_1. HBase's own copies of jars come first on the class path.
PHOENIX_4 = JarSet(
    "phoenix-4",
    f"Phoenix {PHOENIX_4_VERSION}",
    coordinates=(f"org.apache.phoenix:phoenix-core:{PHOENIX_4_VERSION}",),
    excluded=tuple(f"{group}:.*" for group in (*PROVIDED, "ch.qos.logback", "junit", "org.hamcrest")),
)
_DAEMONS = ("server-resourcemanager", "server-nodemanager", "server-timelineservice")
# ResourceManager and NodeManagers, and a client of HDFS for them. They run without HBase's jars.
YARN = JarSet(
    "yarn",
    f"YARN {YARN_VERSION}",
    coordinates=(
        *(f"org.apache.hadoop:hadoop-{module}:{YARN_VERSION}" for module in ("common", "hdfs-client")),
        *(f"org.apache.hadoop:hadoop-yarn-{module}:{YARN_VERSION}" for module in ("client", *_DAEMONS)),
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    excluded=("org.slf4j:slf4j-reload4j", "com.microsoft.sqlserver:.*"),
)
# A broker with its controller (KRaft) in one process. It runs without HBase's jars.
KAFKA = JarSet(
    "kafka",
    f"Kafka {KAFKA_VERSION}",
    coordinates=(
        f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        "org.apache.logging.log4j:log4j-core:2.24.3",  # the broker sets log levels by it, but depends on no version
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
SET_UP = (HBASE_2, HBASE_1, CODECS, PHOENIX)  # by set-up; the others are fetched when a cluster first needs them
JAR_SETS = {jars.name: jars for jars in (*SET_UP, PHOENIX_4, YARN, KAFKA, *OTHER_RELEASES)}


def hbase_classpath(jars: JarSet = HBASE_2) -> list[Path]:
    """Return HBase's jars, sorted by name. Fetches them, in a minute or two, if set-up has not done so."""
    return fetched(jars.title, locked(jars.name), cache_home())


def codec_classpath() -> list[Path]:
    """Return the jars of HBase's codecs for LZ4, SNAPPY and ZSTD, without the jars that they share with HBase."""
    return hbase_classpath(CODECS)


def locked(name: str) -> list[Jar]:
    """Return the jars of the set `name` in jars.lock."""
    return [Jar.parse(line) for line in lock_lines()[name]]


def lock_lines() -> dict[str, list[str]]:
    """Return the lines of jars.lock by set."""
    sets: dict[str, list[str]] = {}
    section: list[str] = []
    for line in map(str.strip, LOCK.read_text(encoding="utf-8").splitlines()):
        if line.startswith("["):
            section = sets.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            section.append(line)
    return sets


def fetched(title: str, jars: list[Jar], cache: Path) -> list[Path]:
    """Return `jars` as files in a folder of `cache`, sorted by name. They are fetched once."""
    digest = hashlib.sha256("\n".join(f"{jar.coordinate} {jar.sha256}" for jar in jars).encode()).hexdigest()[:16]
    folder = cache / f"jars-{digest}"

    def fill(unfinished: Path) -> None:
        megabytes = sum(jar.size for jar in jars) / 1e6
        print(f"{title}: fetching {len(jars)} jars ({megabytes:.0f} MB, once)", file=sys.stderr, flush=True)
        fetch(title, jars, unfinished, kept=cache / f"{folder.name}.arrived")

    return sorted(filled_once(folder, fill).glob("*.jar"))


def py4j_jar() -> Path:
    """Return the py4j jar of the installed pyspark, the Java end of `embedded.client`."""
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    if not jars:
        raise JarsMissingError(f"no py4j jar in {Path(pyspark.__file__).parent / 'jars'}: install pyspark again")
    return jars[0]
