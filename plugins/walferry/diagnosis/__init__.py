"""What is wrong with a source, its peers and their slaves, and what to do about it, a finding each.

    findings    a finding
    peers       one peer: its configuration, its slave, its tables there, its queues
    connections what the connections lead to, step by step: logins (logins), servers (servers), rights, the slaves
    source      everything else: ZooKeeper, the Master, RegionServers, folders, dead servers' and orphaned queues

It changes nothing but the time of a znode of Walferry's own. Only `walferry.cli` and Airflow's steps import this package.
It imports `admin` and what stands below that.
"""
