"""HBase's replication as this library sees it: where edits come from, which of them a peer gets, and where they go.

peers        replication peers, and all of their settings
source       the source cluster, and its connection
queues       replication queues in ZooKeeper: reading, leases, claims
filters      what of a WAL a peer gets
sinks        the slave's RegionServers, by requests
locks        locks under which one run, or one task, ships a peer's edits
retention    what becomes of WALs: HBase's log cleaner, the archive
"""
