"""Ships the WALs in a peer's replication queues.

ship_run                 the job that ships a peer's queues: before its tasks, in each, and after them
plan, candidates         plans the work, WAL group by WAL group: the closed WALs of the peer's queues
group, attempt           ships one WAL group, in as many attempts as it takes, each through the engine (also for a replay)
group_job                the data that a job's driver hands to its tasks, and the groups that a load leaves to them
queued_wals              the engine's feed: the group's closed WALs, and how a run handles broken ones
giving_up                gives up the rest of a broken WAL for a person
serial_order             keeps the order of a region's edits across its moves, for serial peers
queue_positions          the engine's commit: registers positions, removes and archives finished WALs
closed_wal               reads a WAL once it is closed
bulkload                 ships a backlog as HFiles
lake                     ships into tables of changes of Apache Iceberg
peer_down                whether the peer cluster is down
rows                     ships scanned rows as entries of a WAL
deleted                  finds tables and families that neither cluster has any more
lag                      finds the write time of the oldest edit that is not shipped
runs                     the summaries of runs, in ZooKeeper
drains                   the queues that a recovery drains, as its plan noted them
empty_wals               removes WALs without entries from their queues, without a job
garbage_collection       deletes znodes that earlier runs and deleted peers left behind
repositioning            sets a WAL's position for an operator
"""
