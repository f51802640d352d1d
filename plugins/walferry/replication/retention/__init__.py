"""What becomes of WALs once they are written: which of them are kept, by whom and for how long.

old_wals, holders    the files in oldWALs, and the queues that hold them
survey               both together: what keeps files from HBase's log cleaner
forecast             when the disk is full
limits               warnings
archive              a folder of copies of shipped WALs, which outlive HBase's own files
archiving            copying a WAL there, once for all peers, before it leaves a queue
expiry               deleting copies that are old
"""
