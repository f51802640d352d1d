"""Another HBase cluster as the target: its live RegionServers, shipments by ReplicateWALEntry, bulk loads."""
