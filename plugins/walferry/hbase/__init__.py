"""HBase as it is, whoever uses it: its formats, and the calls to its servers.

layout, values          paths of znodes, and what is in them
cluster, cluster_key    what ZooKeeper says of a cluster; how a peer names its slave
table_cfs               the tables of a peer as older releases keep them
names, binary_text      names of tables, servers, WALs and files; bytes as HBase shows them
errors                  errors about znodes and peers
wal, hfiles             write-ahead logs and store files
files                   file systems, and where WALs lie
rpc, tables             calls to servers; regions, scans
crypto                  keys of encrypted WALs
"""
