"""What becomes of WALs once they are written: which of them are kept, by whom and for how long.

    archive      a folder of copies of shipped WALs, which outlive HBase's own files
    archiving    copying a WAL there, once for all peers, before it leaves a queue

This package imports `queues` and what stands below it.
"""
