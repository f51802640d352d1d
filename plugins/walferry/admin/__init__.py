"""What an operator does with replication peers. Only this package changes a peer, and always through the source's Master.

    creating        a new managed peer: DISABLED and marked walferry.managed=true; or an existing one, with its backlog
    handing_back    HBase ships again: by a new peer, which is enabled once ours is drained and gone
    changing        a managed peer's settings, bandwidth, tables and namespaces; nothing is shipped of one that is paused
    removing        a managed peer, once its backlog is shipped or given up
    showing         peers and their queues in words
    own_root        shows whose Walferry's own root in ZooKeeper is, and takes it over
    slave_checks    whether edits can arrive at the slave

`peers` holds what these steps share, `tables` the names of tables and families, `rights` all rights to send for a peer,
`diagnosis` what `walferry check` looks at.

Nothing here enables a managed peer: its RegionServers remember WALs that Walferry has taken out of their queues, and would abort
or hang on them. Each step can be repeated. A step that was done already changes nothing.
"""
