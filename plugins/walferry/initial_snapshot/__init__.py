"""The initial snapshot: the rows that the source has already go to the slave of a new peer, before its queue is shipped.

    targets                  the tables at the slave: made as at the source, and empty
    snapshots, manifest      snapshots of the source's tables, which are deleted in the end, and what they hold
    hfiles                   what an HFile says about itself
    lives, quiet             whether a table is still the one that it was; waits for whoever ships the queues
    region_copy              one region: by its files, or its rows by a scan
    files_copy               a region's files, copied and loaded by the slave
    job                      the job, from its start to its end

Every edit since the peer was added is in its queue. So each region's rows may be of any moment after that: what the copy
lacks, the queue has, and what both have is the same. The queue is shipped only after the copy, because a slave takes what comes
later for newer. For the same reason a region may be copied again, from a later snapshot, in whatever pieces. What the queue has
of before the copy is not shipped: the source may have it no more.
"""
