"""HBase's replication as this library sees it: the source of edits, the edits that a peer gets, and their targets.

peers        replication peers, and all of their settings
source       the source cluster, and its connection
queues       replication queues in ZooKeeper: reading, leases, claims
filters      the edits of a WAL that a peer gets
sinks        the peer cluster's RegionServers, by requests
locks        locks under which one run, or one task, ships a peer's edits
retention    how long WALs are kept: HBase's log cleaner, the archive
"""
