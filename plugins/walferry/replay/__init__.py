"""Ships again what was written in an interval, from the WALs that are left, without any queue.

    interval    when an entry was written: what is picked of a window
    listing     all WALs that lie anywhere: WALs, oldWALs and the archive
    files       those that can hold an interval's entries
    holes       what is gone, as far as the files that are left tell
    store       opens a file wherever it lies
    scan        what an interval has, by table and region
    order       how regions that changed servers keep their order
    run         all of it, from the listing to the summaries
    shipment    one WAL group's files, in order, through the engine
    group_lock  the lock under which one task does that
    job         what all of its tasks share
    replay_run  the job

It writes to no queue.
"""
