"""ZooKeeper itself: a client whose calls end, a right that one holder has at a time, watches for an event loop.

Nothing here knows HBase's znodes; these are in `hbase`.
"""
