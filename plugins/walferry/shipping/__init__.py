"""Ships what a peer has queued.

    plan        what there is to do, WAL group by WAL group;  leftovers  what runs and peers that are gone have left
    group       one WAL group, in as many attempts as it takes;  attempt  one of them, supervised
    reader      WALs → windows → lanes;  lanes  requests in order, side by side;  acknowledged  how far that is safe
    registrar   positions, and WALs that leave the queue;  archiver  copies of these WALs;  broken  WALs that are given up
    group_job   what a job's driver hands to its tasks;  group_wals  what the attempt knows of its WALs
    outcome     why an attempt ends;  slave_down  tells a job's other groups that the slave is down
    pausing     ends it when the peer is paused;  ending  waits for the calls under way
    in_hand     which run ships the peer, where batches overlap;  bandwidth  how much of it a second
    rows        scanned rows, as entries of a WAL;  row_right  the right of a task to ship them
    deleted     tables and families that neither cluster has any more
    counters, lag, summary      the figures

Only `airflow`, `admin` and spark_jobs import this package. It imports retention, queues, sinks.sink, sinks.of_peer and what lies
below them.
"""
