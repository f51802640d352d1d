"""Files of a cluster, on whatever file system: HDFS by hdfs-native, or local.

systems, space                   files by URL; the room on a disk
clients, hdfs                    one client a process for each file system and login
namenode, namenodes, failover    what URLs mean, calls to NameNodes, and which of them is active
logins, access                   as whom which part is used; what this user may do there
unreadable                       bytes that the file system does not give
store, listing                   one WAL wherever HBase moves it; many at once
closedness, quarantine           whether a WAL is complete; what becomes of a broken one
errors                           what goes wrong with files
"""
