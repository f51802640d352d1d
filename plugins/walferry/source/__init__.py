"""The source cluster, its Airflow connection (checked field by field) and HBase's settings of replication; a session with it; and
whether its Master agrees with its ZooKeeper.

`cluster`, `connection` and `knobs` stand on `hbase` and `crypto`; `session` stands on `files` and `zk` too.
"""
