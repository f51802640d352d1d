"""An operator's actions on replication peers. Only this package changes a peer, and always through the source's Master.

    creating             adds a managed peer, DISABLED and marked walferry.managed=true, or takes over an existing one
    handing_back         lets HBase ship again: by a new peer, which is enabled once ours is drained and gone
    changing             changes a managed peer's settings, bandwidth, tables and namespaces, and pauses its shipping
    removing             removes a managed peer, once its backlog is shipped or given up
    showing              shows peers and their queues in words
    own_root             shows whose Walferry's own root in ZooKeeper is, and takes it over
    peer_cluster_checks  checks whether edits can arrive at the peer cluster

`peers` holds the code that these steps share, `tables` the names of tables and families, `rights` all rights to send for a peer,
and `diagnosis` the checks of `walferry check`.

Nothing here enables a managed peer: its RegionServers remember WALs that Walferry has taken out of their queues, and would abort
or hang on them. Each step can be repeated. A step that is repeated changes nothing.
"""
