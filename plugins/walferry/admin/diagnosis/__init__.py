"""What `walferry check` and the DAG check_connections look at, a finding each.

    source     all of a source, its peers and their slaves; whoever checks begins here
    peers      one peer: its configuration, its slave, its tables there, its queues
    logins     whether a login can be used on this machine: its files, and a ticket from the KDC
    servers    asks many servers side by side, and says what each of them has said, or why it has not

It changes nothing but the time of a znode of Walferry's own.
"""
