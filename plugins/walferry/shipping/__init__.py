"""Ships what a peer has queued.

    plan        what there is to do, WAL group by WAL group;  leftovers  what runs and peers that are gone have left
    group       one WAL group, in as many attempts as it takes;  attempt  one of them, through the engine
    queued_wals     the engine's feed: the group's closed WALs;  group_wals  what the attempt knows of them
    queue_positions     the engine's commit: positions, and WALs that leave the queue;  archiver  copies of these WALs
    broken      WALs that are given up;  group_job  what a job's driver hands to its tasks
    slave_down  tells a job's other groups that the slave is down;  pausing  whether the peer is paused
    in_hand     which run ships the peer, where batches overlap;  lag  when the first edit was written
    rows        scanned rows, as entries of a WAL;  row_right  the right of a task to ship them
    deleted     tables and families that neither cluster has any more
    closed_wal  the entries of a WAL once it is closed, wherever HBase moves it;  candidates  which of a queue's WALs are
    runs        the summaries of runs in ZooKeeper;  sweeping  WALs without entries leave the queue without a job
    repositioning   an operator moves a position

Only `airflow`, `admin` and spark_jobs import this package. It imports the engine, retention, queues, sinks.sink, sinks.of_peer
and what lies below them.
"""
