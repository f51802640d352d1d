"""Another HBase cluster as the target.

    sink        the seam's side of it: windows to shipments, shipments to senders
    shipment    what one ReplicateWALEntry request carries;  bulk_loads  the same for bulk loads
    replicate   sends shipments to RegionServers, and tries again;  requests  cuts them where HBase's sink would lose their order
    hfiles  what a bulk load needs before and after
    direct      sends shipments to regions: actions  the row mutations in them;  locations  where the regions are;
                rounds  what goes out at once;  multi  the requests and their results;  action_errors  what these mean;
                calls  makes those of a round side by side
    tries       what the tries of both have in common;  connections  those to the servers
    slave       the slave's ZooKeeper and its RegionServers;  manager  which of these to use;  reachable  whether they can be used
"""
