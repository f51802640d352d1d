"""Ships edits again that were written in an interval, from the WALs that are left, without any queue.

    interval    the interval, and a WAL batch's entries that were written in it
    listing     lists all WALs, wherever they lie: WALs, oldWALs and the archive
    files       finds the WALs that can contain an interval's entries
    holes       finds WALs that are gone, as far as the files that are left show it
    store       opens a file wherever it lies
    scan        counts an interval's edits, by table and region
    order       keeps the order of regions that changed servers
    run         the whole run, from the listing to the summaries
    shipment    one WAL group's files, in order, through the engine
    group_lock  the lock under which one task ships a group
    job         the data that all tasks of a run share
    replay_run  the job

It writes to no queue.
"""
