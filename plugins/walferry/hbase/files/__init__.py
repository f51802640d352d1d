"""Files of a cluster, on whatever file system: HDFS by hdfs-native, or local.

systems, space                   files by URL; the room on a disk
clients, hdfs                    one client a process for each file system and login
namenode, namenodes, failover    the meaning of URLs, calls to NameNodes, and the active NameNode
logins, access                   the login for each part; this user's rights there
unreadable                       bytes that the file system cannot read
store, listing                   one WAL wherever HBase moves it; many at once
closedness, quarantine           whether a WAL is complete; the treatment of broken WALs
errors                           the errors of working with files
"""
