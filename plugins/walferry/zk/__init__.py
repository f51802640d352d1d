"""ZooKeeper itself: a client whose calls always end (`client`), a right that one holder has at a time (`hold`), and watches for
an event loop (`watcher`).

Nothing here knows HBase's znodes: see `hbase`.
"""
