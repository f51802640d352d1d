"""Describes Walferry for Airflow when pip has installed it: its classes by kind, a connection type with a form, and its options.

A connection of type generic works as well: its extra has the same fields. The plugin is not named here: pip's entry point brings
it, and Airflow would load it twice.
"""

from __future__ import annotations

from typing import Any

from walferry.airflow.options import SECTION, descriptions
from walferry.base.security.login import Protection, ZooKeeperAuth
from walferry.hbase.layout import QueueLayout
from walferry.replication.source.cluster import VisibilityLabels

CONN_TYPE = "hbase_source"
HOOK_NAME = "HBase replication source"
INTEGRATION = "HBase replication"
_OURS = "walferry.airflow"
# Airflow reads this in each of its processes, so nothing is imported to find the modules; tests compare them with the classes.
_MODULES = {
    "operators": (
        "operators.approval",
        "operators.run_batch",
        "operators.ship_wals",
        "tasks.initial_snapshot",
        "tasks.merging",
        "tasks.region_master",
        "tasks.replay",
        "tasks.verification",
    ),
    "sensors": ("sensors.dead_servers", "sensors.new_wals", "sensors.stuck_regions"),
    "triggers": (
        "triggers.closed_wals",
        "triggers.dead_servers",
        "triggers.new_wals",
        "triggers.no_master",
        "triggers.stuck_regions",
    ),
    "hooks": ("hooks.hbase", "hooks.spark", "hooks.spark_connect"),
}
_LINKS = ("operators.links.ReplicationLink", "operators.links.SparkLink")
_TEXT = {"type": ["string", "null"]}
_FIELDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "wal_root": ("WAL root", "Required. URL of hbase.wal.dir, else of hbase.rootdir: hdfs://nn:8020/hbase", _TEXT),
    "znode_parent": ("Znode parent", "zookeeper.znode.parent; default /hbase", _TEXT),
    "user": ("User", "Without Kerberos: user name that RPCs carry; default: the user that runs the task", _TEXT),
    "principal": ("Principal", "Kerberos: our own principal, walferry/host@EXAMPLE.COM", _TEXT),
    "keytab": ("Keytab", "Path of the keytab with the principal's key, on each machine that talks to the cluster", _TEXT),
    "protection": ("Protection", "The weakest that is accepted; default: authentication of servers, integrity of NameNodes",
                   {**_TEXT, "enum": [*map(str, Protection), None]}),
    "server_principals": ("Server principals", "Principals of HBase's servers, split by commas; default hbase/_HOST in our realm",
                          _TEXT),
    "hosts": ("Hosts of peer clusters",
              "Hosts of a peer cluster with which the principal may be used, split by commas: *.west.example.com",
              _TEXT),
    "tls_ca": ("TLS: authorities", "Path of the certificates (PEM) of who signs the servers' ones; HBase's RPC then goes by TLS",
               _TEXT),
    "tls_certificate": ("TLS: certificate", "Path of our own certificate (PEM), if the servers demand one", _TEXT),
    "tls_key": ("TLS: key", "Path of its private key (PEM); empty: it stands in the certificate's file", _TEXT),
    "tls_key_password_file": ("TLS: password file", "Path of a file with the key's password", _TEXT),
    "zk_auth": ("ZooKeeper: login", "How to log in to ZooKeeper; default kerberos with a principal, none without",
                {**_TEXT, "enum": [*map(str, ZooKeeperAuth), None]}),
    "zk_server_principal": ("ZooKeeper: server principal", "For kerberos; default zookeeper/_HOST", _TEXT),
    "zk_user": ("ZooKeeper: user", "For digest (DIGEST-MD5)", _TEXT),
    "zk_password_file": ("ZooKeeper: password file", "For digest: path of a file with the password", _TEXT),
    "zk_tls_ca": ("ZooKeeper TLS: authorities", "As TLS: authorities; ZooKeeper is then talked to by TLS", _TEXT),
    "zk_tls_certificate": ("ZooKeeper TLS: certificate", "As TLS: certificate", _TEXT),
    "zk_tls_key": ("ZooKeeper TLS: key", "As TLS: key", _TEXT),
    "zk_tls_key_password_file": ("ZooKeeper TLS: password file", "As TLS: password file", _TEXT),
    "peer_clusters": ("Peer clusters",
                      'Connections of peer clusters by cluster key: {"zk1,zk2:2181:/hbase": "hbase_peer"}; empty: as the source',
                      _TEXT),
    "kafka_clients": ("Kafka: client files",
                      'Files with settings of Kafka\'s clients, by brokers: {"kafka1:9092": "/etc/walferry/kafka.properties"}',
                      _TEXT),
    "walferry_root": ("Own root", "Walferry's own root in ZooKeeper; default /walferry", _TEXT),
    "root_dir": ("Root folder", "URL of hbase.rootdir, if it is not the WAL root", _TEXT),
    "peers_root": ("Folder of peers",
                   "URL of the folder of HBase's peers, if hbase.replication.peer.storage.impl is filesystem", _TEXT),
    "archive": ("Archive", "URL of a folder outside of the WAL root for copies of shipped WALs; empty: no copies", _TEXT),
    "archive_days": ("Days in the archive", "How many days copies stay there; default 30", {"type": ["number", "null"]}),
    "quarantine": ("Quarantine", "URL of a folder for broken WALs", _TEXT),
    "replication_cluster_id": ("Replication cluster id", "hbase.replication.cluster.id; needed for bulk loads", _TEXT),
    "skip_bulk_loads": ("Skip bulk loads", "Leave out the bulk loads that the source replicates, and count them",
                        {"type": ["boolean", "null"]}),
    "visibility_labels": ("Visibility labels", "What happens to cells with visibility labels; default refuse",
                          {**_TEXT, "enum": [*map(str, VisibilityLabels), None]}),
    "key_provider": ("Key provider", "For encrypted WALs: URL of the key store, without a password", _TEXT),
    "key_names": ("Key names", "For encrypted WALs: aliases to try, split by commas", _TEXT),
    "queue_layout": ("Queue layout", "How the source keeps its queues; default 2.x",
                     {**_TEXT, "enum": [*map(str, QueueLayout), None]}),
}  # fmt: skip


def get_provider_info() -> dict[str, Any]:
    """Return the description that Airflow's provider manager reads."""
    return {
        "package-name": "walferry",
        "name": "Walferry",
        "description": "`HBase <https://hbase.apache.org/>`__ replication moved off the RegionServers.",
        "integrations": [
            {
                "integration-name": INTEGRATION,
                "external-doc-url": "https://hbase.apache.org/book.html#_cluster_replication",
                "tags": ["apache"],
            }
        ],
        **{
            kind: [{"integration-name": INTEGRATION, "python-modules": [f"{_OURS}.{name}" for name in names]}]
            for kind, names in _MODULES.items()
        },
        "extra-links": [f"{_OURS}.{name}" for name in _LINKS],
        "config": {SECTION: {"description": "HBase replication by Walferry.", "options": descriptions()}},
        "connection-types": [
            {
                "connection-type": CONN_TYPE,
                "hook-class-name": "walferry.airflow.hooks.hbase.HBaseSourceHook",
                "hook-name": HOOK_NAME,
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "password"],
                    "relabeling": {"host": "ZooKeeper quorum", "port": "ZooKeeper client port"},
                    "placeholders": {"host": "zk1,zk2,zk3", "port": "2181"},
                },
                "conn-fields": {
                    name: {"label": label, "description": text, "schema": schema}
                    for name, (label, text, schema) in _FIELDS.items()
                },
            }
        ],
    }
