"""Walferry: HBase replication moved off the RegionServers.

Imports go one way, from the top of this picture to its bottom:

    cli                                  the command `walferry`
    airflow                              hooks, operators, sensors, triggers, and what the DAGs' tasks do
    spark, admin                         the job's way to the executors; what operators do with peers
    bootstrap, reship, verification      a new peer's first copy; an interval shipped again; source and slave compared
    shipping                             what a peer has queued, and how far it is shipped
    engine                               the loop that ships: feed, filter, senders, commit
    retention                            what becomes of WALs: the cleaner, the archive
    queues                               replication queues in ZooKeeper: reading, leases, dead servers, claims
    source  files  filters  sinks        where edits come from, which of them a peer gets, and where they go
    wal  hbase  rpc  crypto              HBase's formats: files, znodes, calls, keys
    kernels  protos  names  hosts  texts  zk    what all of these stand on; nothing here knows replication

Each package says in its own `__init__` what lives there. `tests/unit/test_layers.py` holds the code to this picture.
"""

__version__ = "0.1.0"
