"""The initial snapshot: brings rows that the source already has to the cluster of a new peer, or into its lake, before the peer's
queue is shipped.

    beginning                who may copy, from when on, and which snapshots there are
    targets                  makes the tables at the peer cluster as at the source, and checks that they are empty
    snapshots                takes and deletes snapshots of the source's tables
    hfiles                   writes the metadata of an HFile's copy
    lives                    whether a table is still the same one
    region_copy              copies one region: by its files, or its rows by a scan
    files_copy               copies a region's files, and has the peer cluster load them
    job                      the job, from its start to its end, to a peer cluster
    into_lake                the job for a lake
    lake_pieces, lake_rows   what its tasks copy; a task

**To a peer cluster**: every edit since the peer was added is in its queue. So each region's rows may be of any moment after
that: the queue contains the edits that the copy lacks, and edits that both contain are the same. The queue is shipped only after
the copy, because a peer cluster takes later writes for newer. For the same reason a region may be copied again, from a later
snapshot, in whatever pieces. The queue's edits from before the copy are not shipped: the source may have deleted them.

**Into a lake**, where nothing replaces anything, an edit that both contain would be there twice. So each region is copied once,
and the queue's edits that it contains are left out (shipping/lake/copied.py).
"""
