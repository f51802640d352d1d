"""Replication queues in ZooKeeper: reading them, the lease on a WAL group, new WALs, dead servers and what is left of them.

`reading` is the one snapshot of the queues that all others look at, and the one rule of which WALs are closed. `consistent` looks
again if a queue was moved meanwhile. `finding` looks for a group or a WAL where it was last seen, and further only if it may have
moved. `claims` moves a dead server's queues.
`rolling` has the RegionServers begin new WALs. The package stands on `hbase`, `rpc`, `zk`, `source` and `names`.
"""
