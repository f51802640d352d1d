"""The retention of written WALs: which WALs are kept, by whom and for how long.

survey     the files in oldWALs, the queues that keep them from HBase's log cleaner, and when the disk is full
limits     warnings
unflushed  warns before rolls make HBase flush
archive    a folder of copies of shipped WALs: made once for all peers before a WAL leaves a queue, deleted when old
"""
