"""Replication queues in ZooKeeper: reading them, the lease on a WAL group, new WALs, dead servers and what is left of them.

`reading` is the one snapshot of the queues that all others look at, and the one rule of which WALs are closed. `consistent` looks
again if a queue was moved meanwhile. `finding` looks for a group or a WAL where it was last seen, and further only if it may have
moved. `claims` moves a dead server's queues, and deletes those of peers that no longer exist.
`rolling` has the RegionServers begin new WALs.

    dead_servers    queues that get no new WALs, and the dead servers that they came from
    errors          errors of changes to replication queues
    lease           the lease on a WAL group
    new_wals        finds closed WALs of a peer that a task has not dealt with yet; a mark remembers how far it is
"""
