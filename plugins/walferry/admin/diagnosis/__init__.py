"""What is wrong with a source, its peers and their slaves, and what to do about it, a finding each.

    findings    a finding
    peers       one peer: its configuration, its slave, its tables there, its queues
    connections what the connections lead to, step by step: logins (logins), servers (servers), rights, the slaves
    source         everything else: ZooKeeper, the Master, RegionServers, folders, dead servers' and orphaned queues
    connections    what the connections lead to, step by step, from the files of a login to rights
    logins         whether a login can be used on this machine: its files, and a ticket from the KDC
    servers        asks many servers side by side, and says what each of them has said, or why it has not

It changes nothing but the time of a znode of Walferry's own.
"""
