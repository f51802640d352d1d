"""Ships what a peer has queued.

ship_run                 the job that ships a peer's queues: before its tasks, in each, and after them
plan, candidates         what there is to do, WAL group by WAL group: the closed WALs of its queues
group, attempt           one WAL group, in as many attempts as it takes, each through the engine
group_job                what a job's driver hands to its tasks, and what a load leaves to them
queued_wals              the engine's feed: the group's closed WALs, and what becomes of broken ones
queue_positions          the engine's commit: positions, WALs that leave the queue, copies of finished ones
closed_wal               the entries of a WAL once it is closed
bulkload                 a backlog shipped as HFiles
slave_down, pausing      whether the slave is down, and whether the peer is paused
rows                     scanned rows, as entries of a WAL
deleted                  tables and families that neither cluster has any more
lag                      when the first edit that waits was written
runs                     the summaries of runs in ZooKeeper
drains                   the queues that a recovery is to drain, as its plan has noted them
sweeping                    WALs without entries leave the queue without a job
garbage_collection          znodes that runs and peers that are gone have left
repositioning            an operator moves a position
"""
