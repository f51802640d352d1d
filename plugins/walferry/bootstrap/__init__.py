"""The first copy: the rows that the source has already go to the slave of a new peer, before its queue is shipped.

    choice         which tables and families are copied
    targets        the tables at the slave: made as at the source, and empty
    snapshots      snapshots of the source's tables, which are deleted in the end;  manifest  what a snapshot holds
    hfiles         what an HFile says about itself
    border         up to where the queues are older than the copy;  lives  whether a table is still the one that it was
    quiet          waits for whoever ships the queues
    files_copy     a region's files, copied and loaded by the slave;  scan_copy  its rows, for what cannot be copied so
    file_copy      one file;  turns  one load at a time into a region of the slave
    region_copy    one region, in one of these two ways
    records        what is copied already, in ZooKeeper;  fence  keeps runs out that were overtaken
    job            what a Spark job does

Every edit since the peer was added is in its queue. So each region's rows may be of any moment after that: what the copy
lacks, the queue has, and what both have is the same. The queue is shipped only after the copy, because a slave takes what comes
later for newer. For the same reason a region may be copied again, from a later snapshot, in whatever pieces. What the queue has
of before the copy is not shipped: the source may have it no more.

Only `airflow` and spark_jobs import this package, and `reship`, which leaves out what is older than a copy. It imports
`shipping`, `bulkload`, `tables`, `sinks.of_peer` and what lies below them.
"""
