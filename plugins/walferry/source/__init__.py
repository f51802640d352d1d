"""The source cluster and how to reach it.

`cluster` is what a run knows of it, `connection` reads that from Airflow, and `knobs` are HBase's replication settings. `session`
is a connected client with the cluster's paths and files. `agreement` checks that the Master and ZooKeeper agree on the peers.

`cluster`, `connection` and `knobs` import `hbase` and `crypto`; `session` and `agreement` also import `files`, `zk` and `rpc`.
"""
