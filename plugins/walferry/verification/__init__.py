"""Compares tables of a source and of a peer's cluster, as HBase's VerifyReplication does, and ships differing rows again.

    verify_run  the job
    job         describes what to compare, and how
    plan        the tables and ranges of a peer
    snapshots   the files of the ranges, in snapshots of both sides
    files       compares the files of one range
    digests     hashes a range's rows in buckets, whose borders both sides find without each other
    rows        compares one range row by row
    ranges      one task: compares a range (files, hashes, rows of spans that differ, recompares), and repairs if asked to
    repair      ships source rows again, through the peer's sink
    clocks      how far the clocks of two clusters and of this machine are apart
    outcome     the figures and samples
    results     the result of a peer's newest comparison, in ZooKeeper under Walferry's own root

Nothing here writes to the source, except for snapshots if files are to be compared.
"""
