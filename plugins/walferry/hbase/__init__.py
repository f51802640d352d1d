"""HBase's formats, and calls to its servers, independent of the code that uses them.

layout, values          paths of znodes, and their values
cluster, cluster_key    a cluster's state in ZooKeeper; the key by which a peer names its cluster
peer_files              peers in files, as HBase 2.6 may keep them
table_cfs               the tables of a peer as older releases keep them
queue_table             the table in which HBase 3 keeps its replication queues
names, binary_text      names of tables, servers, WALs and files; bytes as HBase shows them
errors                  errors about znodes and peers
wal, hfiles             write-ahead logs and store files
files                   file systems, and where WALs lie
rpc, tables             calls to servers; regions, scans
web_pages               servers' settings and metrics, from their web pages
crypto                  keys of encrypted WALs
"""
