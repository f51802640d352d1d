"""The command `walferry`, for operators at a terminal and for scripts. It needs neither an HBase shell nor a running Airflow.

    main                         the command with its groups; errors and exit statuses
    options, source, show        what commands share: parameters, which cluster, tables and JSON, --watch
    status                       how replication stands, also for Prometheus; and where the shipping of a queued WAL goes on
    peers                        peers looked at, and changed
    wal, regions                 WALs and regions in transition
    batches, recovery, verify    a peer shipped, dead servers' queues drained, tables compared, in processes of this machine
    local_ship                   what is shipped so
    checks                       what is wrong, and what to do about it
    own_root                     `walferry own-root`: whose Walferry's root in ZooKeeper is, and how it becomes ours

A module is imported when its command is called, and imports what it needs when it runs: most commands begin in a fraction of a
second. All that is shown of a cluster is data: it never controls the terminal, and is never markup.
"""
