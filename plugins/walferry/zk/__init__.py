"""ZooKeeper itself: a client whose calls always end (`client`, `answers`), its logins and TLS (`secured`, `login`), whose
znodes it makes (`acls`), a right that one holder has at a time (`hold`), and watches for an event loop (`watcher`).

Nothing here knows HBase's znodes: see `hbase`.
"""
