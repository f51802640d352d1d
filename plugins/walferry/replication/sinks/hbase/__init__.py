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

    action_errors    what the exceptions in the result of a Multi mean
    actions          finds the row mutations in a shipment, as a slave's own sink would (ReplicationSink.replicateEntries)
    bulk_loads       decides what becomes of bulk loads
    calls            makes the calls of a round side by side, and tells of each what it has done and what has failed
    connections      the connections of a sender to the slave's RegionServers
    direct           sends shipments to the slave's regions themselves
    hfiles           sends one bulk load: looks for its files before, and lets the source clean them after
    locations        where the regions of the slave's tables are
    manager          chooses the RegionServers of the slave that take shipments
    multi            clientService.Multi
    reachable        a quick look at whether a slave can be shipped to, before a job is started for it
    replicate        sends shipments to the slave
    requests         cuts a shipment into ReplicateWALEntry requests, each of which HBase's sink applies in the order of the WAL
    rounds           what of a shipment goes out in a round
    share            how many calls the senders of a task have under way to each server of the slave, all together
    shipment         assembles what one ReplicateWALEntry request carries, by copying bytes of the WAL
    sink             another HBase cluster as a sink
    slave            the slave of a peer while a group is shipped to it
    tries            what the tries of a sender to ship have in common, whatever they send
"""
