"""The checks of `walferry check` and of the DAG check_connections. Each check gives a finding.

    source     checks all of a source, its peers and their clusters; callers begin here
    peers      checks one peer: its configuration, its peer cluster, its tables there, its queues
    logins     checks whether a login can be used on this machine: its files, and a ticket from the KDC
    upgrade    checks what the next step of an upgrade to HBase 3 needs
    spark      checks a Spark Connect server by a small job
    servers    asks many servers in parallel, and reports each server's answer, or why there is none

These checks change nothing but the time of a znode of Walferry's own.
"""
