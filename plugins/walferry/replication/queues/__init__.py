"""Replication queues: reading and claiming them, leases on WAL groups, new WALs and dead servers.

`reading` takes the snapshot of the queues that all other modules use, and decides which WALs are closed. `consistent` reads again
if a queue was moved meanwhile. `finding` looks for a group or a WAL where it was last seen, and further only if it may have
moved. `claims` moves a dead server's queues, and deletes queues of peers that no longer exist. `rolling` begins new WALs,
and `needed_rolls` decides which servers need that.

    announcing      when closed WALs that wait in peers' queues are announced
    closed_wals     announces to an event loop what batches have to do, for all managed peers
    dead_servers    queues that get no new WALs, and the dead servers that they came from
    errors          errors of changes to replication queues
    in_table        queues of HBase 3, which are in a table
    last_pushed     the last sequence ids that a serial peer has got
    lease           the lease on a WAL group
    queue           what a queue contains: WALs with their positions, in groups
    roll_times      when RegionServers are to begin new WALs
    table_writes    writes of a lease's holder to a queue in a table
    znode_writes    writes of a lease's holder to a queue in ZooKeeper
    new_wals        finds closed WALs of a peer that a task has not dealt with yet; a mark records its progress
"""
