"""The command `walferry`, for operators at a terminal and for scripts. It needs neither an HBase shell nor a running Airflow.

    main                         the command with its groups, errors and exit statuses
    options, source, show        shared by commands: parameters, the choice of the cluster, tables and JSON, --watch
    status                       the state of replication, also for Prometheus; sets the position in a queued WAL
    peers                        shows peers, and changes them
    wal, regions                 WALs and regions in transition
    batches, recovery, verify    ship a peer, drain dead servers' queues and compare tables, in processes of this machine
    merge                        brings a lake's tables of state up to date, in these processes
    local_ship                   ships WAL groups in these processes
    checks                       shows what is wrong, and what to do about it
    own_root                     `walferry own-root`: shows whose Walferry's root in ZooKeeper is, and makes it ours
    compile, pack                compile the library's kernels beforehand; pack what executors need

A command's module is imported when the command is called, and imports what it needs when it runs: most commands begin in a
fraction of a second. Text from a cluster is always data: it never controls the terminal, and is never markup.
"""
