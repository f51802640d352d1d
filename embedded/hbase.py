"""Defines addresses, HBase's settings and hbase-site.xml files for all embedded clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ZNODE_PARENT = "/hbase"

# All servers listen on this machine only, on ports that the system chooses.
LOCAL_ONLY = {
    "hbase.master.hostname": "localhost",
    "hbase.unsafe.regionserver.hostname": "localhost",
    "hbase.master.ipc.address": "127.0.0.1",
    "hbase.regionserver.ipc.address": "127.0.0.1",
    "hbase.master.port": "0",
    "hbase.regionserver.port": "0",
    "hbase.master.info.port": "-1",
    "hbase.regionserver.info.port": "-1",
    "hbase.zookeeper.property.clientPortAddress": "127.0.0.1",
    "hbase.zookeeper.property.admin.enableServer": "false",  # its server would use port 8080
    "hbase.unsafe.stream.capability.enforce": "false",
}

# Small and quick on a small machine.
SMALL = {
    "hbase.regionserver.handler.count": "10",
    "hbase.regionserver.metahandler.count": "5",
    "hbase.regionserver.replication.handler.count": "5",
    "hbase.master.executor.openregion.threads": "2",
    "hbase.regionserver.executor.openregion.threads": "2",
    "hbase.regions.slop": "0.2",
    # A client polls the master's procedures with pauses that grow up to a hundred times this one.
    "hbase.client.pause": "10",
    "hbase.client.retries.number": "40",
    "hbase.procedure.remote.dispatcher.delay.msec": "10",
    "replication.source.sleepforretries": "100",  # ms; a source that is removed ends after twice as long
    "hbase.regionserver.msginterval": "500",
    "hbase.server.thread.wakefrequency": "1000",
    "hbase.master.wait.on.regionservers.interval": "200",
    "hbase.master.wait.on.regionservers.timeout": "1000",
    "hbase.netty.worker.count": "2",
    # A cluster of one JVM ends itself if its master takes longer, by default half a minute: too short for a busy machine.
    "hbase.master.start.timeout.localHBaseCluster": "300000",
    "hbase.master.init.timeout.localHBaseCluster": "300000",
}

# A shared machine may stand still for a while, but not this long. embedded.ephemerals removes killed servers' znodes at once.
SESSION_TIMEOUT_MS = 180_000

# Pass this as `conf` to delete archived WALs within seconds once nothing needs them any more (HBase's default: 10 minutes).
QUICK_LOG_CLEANER = {"hbase.master.cleaner.interval": "2000", "hbase.master.logcleaner.ttl": "2000"}

LOG4J = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} [%t] %p %c{2} - %m%n
log4j.logger.org.apache.zookeeper=WARN
"""


@dataclass(frozen=True)
class ClusterAddress:
    """A cluster's address. `quorum` is "localhost:<port>", `wal_root` a file:// or hdfs:// URL; clients read `hbase_site`."""

    quorum: str
    znode_parent: str
    wal_root: str
    hbase_site: Path

    @property
    def cluster_key(self) -> str:
        """The cluster key, as in a peer's configuration: `localhost:2181:/hbase`."""
        return f"{self.quorum}:{self.znode_parent}"


def zookeeper_settings(client_port: int) -> dict[str, str]:
    """Return settings by which servers and clients find ZooKeeper at `client_port`, with sessions of SESSION_TIMEOUT_MS."""
    return {
        "zookeeper.session.timeout": str(SESSION_TIMEOUT_MS),
        "zookeeper.session.timeout.localHBaseCluster": str(SESSION_TIMEOUT_MS),  # for ZooKeeper and all servers in one JVM
        "hbase.zookeeper.property.maxSessionTimeout": str(SESSION_TIMEOUT_MS),
        "hbase.zookeeper.quorum": "localhost",
        "hbase.zookeeper.property.clientPort": str(client_port),
        "zookeeper.znode.parent": ZNODE_PARENT,
    }


def write_site(path: Path, settings: Mapping[str, str]) -> Path:
    """Write `settings` as a Hadoop configuration file (hbase-site.xml, core-site.xml, hdfs-site.xml) and return its path."""
    properties = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'<?xml version="1.0"?>\n<configuration>\n{properties}</configuration>\n')
    return path


def write_log4j(site: Path) -> None:
    """Write log4j.properties beside `site`: servers that log through log4j, as HBase 1's, stay silent without it."""
    site.with_name("log4j.properties").write_text(LOG4J)
