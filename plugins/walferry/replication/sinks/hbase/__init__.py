"""Another HBase cluster as the target.

sink             the seam's side of it: windows to shipments, shipments to senders
shipment         what one ReplicateWALEntry request carries, by copying bytes of the WAL
bulk_loads       the same for bulk loads; sends them: looks for the files before, and lets the source clean them after

replicate        sends shipments to RegionServers, and tries again
requests         cuts a shipment where HBase's sink would lose its order

direct           sends shipments to regions themselves
actions          the row mutations in a shipment, as a slave's own sink would find them
locations        where the regions of the slave's tables are
rounds           what of a shipment goes out at once
multi            clientService.Multi: the requests and their results
action_errors    what the exceptions in these results mean
calls            makes the calls of a round side by side, and tells of each what it has done and what has failed

tries            what the tries of a sender to ship have in common, whatever they send
connections      a sender's connections to the slave's RegionServers, and its share of the calls under way there
slave            the slave of a peer while a group is shipped to it: its ZooKeeper and its RegionServers
manager          which of these take shipments
reachable        a quick look at whether a slave can be shipped to, before a job is started for it
"""
