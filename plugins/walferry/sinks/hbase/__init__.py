"""Another HBase cluster as the target.

    sink        the seam's side of it: windows to shipments, shipments to lanes
    shipment    what one ReplicateWALEntry request carries;  bulk_loads  the same for bulk loads
    replicate   sends shipments and tries again;  hfiles  what a bulk load needs before and after
    slave       the slave's ZooKeeper and its RegionServers;  manager  which of these to use;  reachable  whether they can be used
"""
