"""What an operator does with replication peers. Only this package changes a peer, and always through the source's Master.

    creating      a new managed peer: DISABLED and marked walferry.managed=true
    taking_over   the mark on an existing DISABLED peer, with its backlog
    handing_back  HBase ships again: by a new ENABLED peer, beside ours until ours is drained
    pausing       nothing of a managed peer is shipped until it is resumed
    changing      a managed peer's settings, bandwidth, tables and namespaces
    removing      a managed peer, once its backlog is shipped or given up
    showing       peers and their queues in words

`peers` holds what these steps share, `tables` the names of tables and families, `backlog` what a peer has yet to ship. Only
`walferry.cli` and `walferry.diagnosis` import this package. It imports `shipping` and what stands below that.

Nothing here enables a managed peer: its RegionServers remember WALs that Walferry has taken out of their queues, and would abort
or hang on them. Each step can be repeated. A step that was done already changes nothing.
"""
