"""Parses cluster keys, by which peers name their peer clusters. This module imports no ZooKeeper client.

    key = quorum ":" port ":" parent                                  (ZKConfig.transformClusterKey)
    key = "hbase+zk://" host [":" port] { "," host [":" port] } parent    HBase 2.7 and 3 (ZKConnectionRegistryURIFactory)

HBase also knows "hbase+rpc://", which names Masters instead of ZooKeeper. Walferry needs the peer cluster's ZooKeeper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

JAVA_BLANKS = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes
_HOST = re.compile(r"[^:,\s/?#@\[\]\x00-\x1f]+(?::(\d{1,5}))?")
_ZNODE_PARENT = re.compile(r"/.*[^/]")
MAX_CLUSTER_KEY_CHARS = 4000
DEFAULT_PORT = 2181
# A host without a port would mean the source's own port to HBase, and %xx another character.
_URI = re.compile(r"hbase\+zk://(?P<hosts>[^/?#%,:]+:\d+(?:,[^/?#%,:]+:\d+)*)(?P<parent>/[^:?#%]*)", re.IGNORECASE)
_CLUSTER_KEY_FORM = (
    "it should be hbase+zk://host:port,…/parent, or hbase.zookeeper.quorum:hbase.zookeeper.property.clientPort:"
    "zookeeper.znode.parent"
)


@dataclass(frozen=True)
class ClusterKey:
    """The address of another cluster's ZooKeeper."""

    quorum: str  # "h1,h2", or "h1:2181,h2:2182" if the hosts in the key have ports
    port: int
    znode_parent: str

    @property
    def connect_string(self) -> str:
        """The quorum with a port for every host, as ZooKeeper clients expect it."""
        return ",".join(host if ":" in host else f"{host}:{self.port}" for host in self.quorum.split(","))

    def __str__(self) -> str:
        return f"{self.quorum}:{self.port}:{self.znode_parent}"


def parse_cluster_key(text: str) -> ClusterKey:
    """Parse `quorum:port:parent`, whose hosts may have ports, or the URI `hbase+zk://hosts/parent`. Raises ValueError."""
    if len(text) <= MAX_CLUSTER_KEY_CHARS and (uri := _URI.fullmatch(text)):
        head, _, parent = f"{uri['hosts']}:{DEFAULT_PORT}", "", uri["parent"]
    else:
        head, _, parent = text.rpartition(":")
    quorum, _, port = head.rpartition(":")
    hosts = _hosts(quorum)
    named = [host for host in hosts if (match := _HOST.fullmatch(host)) and 0 < int(match[1] or 1) < 65536]
    if len(text) > MAX_CLUSTER_KEY_CHARS:
        raise ValueError(f"a cluster key of {len(text):,} characters is too long: {text[:100]!r}…; {_CLUSTER_KEY_FORM}")
    if not named or len(named) != len(hosts) or not _is_path(parent):
        raise ValueError(f"cluster key {text!r}: {_CLUSTER_KEY_FORM}")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"cluster key {text!r}: port {port!r} is not between 1 and 65535; {_CLUSTER_KEY_FORM}")
    return ClusterKey(",".join(hosts), int(port), parent)


def _hosts(quorum: str) -> list[str]:
    """Return the hosts that HBase finds in a quorum. Empty hosts are skipped at the end, and elsewhere if no host has a port.

    If any host has a port, HBase gives the default port to an empty host, which then means this machine.
    """
    parts = quorum.rstrip(",").split(",")
    # ZooKeeper's client strips the entries of its connect string (ConnectStringParser).
    return [part.strip(JAVA_BLANKS) for part in parts if part or ":" in quorum]


def _is_path(parent: str) -> bool:
    return bool(_ZNODE_PARENT.fullmatch(parent)) and parent.isprintable() and not {".", ".."} & set(parent.split("/"))
