"""Compares tables of a source and of a peer's slave, as HBase's VerifyReplication does, and ships differing rows again.

    verify_run  the job
    job        what to compare, and how
    plan       the tables and ranges of a peer
    digests    a range's rows as hashes of buckets, whose borders both sides find without each other
    rows       one range row by row
    ranges     one task: hashes, then the rows of ranges that differ, and recompares
    repair     ships source rows again, through the peer's sink
    clocks     how far the clocks of two clusters and of this machine are apart
    outcome    the figures and samples
    results    the result of a peer's newest comparison, in ZooKeeper under a root of our own
    task       one task of the job: compare a range, and repair what differs if that is asked for

Nothing here writes to the source.
"""
