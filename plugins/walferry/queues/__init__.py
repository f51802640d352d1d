"""Replication queues in ZooKeeper: reading them, the lease on a WAL group, new WALs, dead servers and what is left of them.

`claims` moves a dead server's queues, `rolling` has the RegionServers begin new WALs. It stands on `hbase`,
`rpc`, `zk`, `source` and `names`.
"""
