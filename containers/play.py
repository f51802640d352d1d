"""Something to replicate, for the two clusters of profile `hbase`: `docker compose run --rm hbase-client COMMAND`

tables        make table `clicks` at the source and at the peer cluster
write ROWS    put so many rows into the source's
compare       compare both, cell by cell
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from embedded.client import GLOBAL, ClientJvm, JavaClient
from embedded.hbase import ZNODE_PARENT, ClusterAddress, write_site

TABLE = "clicks"


def main(words: Sequence[str]) -> int:
    if not words or words[0] not in ("tables", "write", "compare") or (words[0] == "write") != (len(words) == 2):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, ClientJvm(Path(folder), heap="256m") as jvm:
        source, peer_cluster = (jvm.client(_address(name, Path(folder))) for name in ("source", "peer"))
        if words[0] == "tables":
            return _make_tables(source, peer_cluster)
        if words[0] == "write":
            source.put_many(TABLE, int(words[1]), ["f:q"])
            return 0
        found = source.compare(TABLE, peer_cluster)
    print(f"source: {found.left} cells, peer cluster: {found.right} cells, different: {found.different}")
    return 0 if found.same else 1


def _make_tables(*clusters: JavaClient) -> int:
    for cluster in clusters:
        if not cluster.table_exists(TABLE):
            cluster.create_table(TABLE, {"f": GLOBAL})
    return 0


def _address(name: str, folder: Path) -> ClusterAddress:
    """The cluster as docker-compose.yaml has it. HBASE_PLAY_<NAME> is another `host:port` of its ZooKeeper."""
    quorum = os.environ.get(f"HBASE_PLAY_{name.upper()}", f"{name}-zookeeper:2181")
    host, port = quorum.split(":")
    settings = {
        "hbase.zookeeper.quorum": host,
        "hbase.zookeeper.property.clientPort": port,
        "zookeeper.znode.parent": ZNODE_PARENT,
    }
    site = write_site(folder / name / "hbase-site.xml", settings)
    return ClusterAddress(quorum, ZNODE_PARENT, f"file:///hbase/{name}", site)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
