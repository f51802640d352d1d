"""Ships what a peer has queued.

ship_run                 the job that ships a peer's queues: before its tasks, in each, and after them
plan, candidates         what there is to do, WAL group by WAL group: the closed WALs of its queues
group, attempt           one WAL group, in as many attempts as it takes, each through the engine
group_job, group_wals    what a job's driver hands to its tasks; what an attempt knows of its WALs
queued_wals              the engine's feed: the group's closed WALs
queue_positions          the engine's commit: positions, and WALs that leave the queue
closed_wal, broken       the entries of a WAL once it is closed; WALs that are given up
archiver                 copies of finished WALs
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
