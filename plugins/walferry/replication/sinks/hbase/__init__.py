"""Another HBase cluster as the target.

sink             implements the `sink` protocol: WAL batches to shipments, shipments to senders
shipment         the contents of a ReplicateWALEntry request, by copying bytes of the WAL
bulk_loads       the same for bulk loads; sends them, looks for the files first, and lets the source clean them afterwards

replicate        sends shipments to RegionServers, and tries again
requests         cuts a shipment where HBase's sink would lose its order

direct           sends shipments to regions themselves
actions          the row mutations in a shipment, as a peer cluster's own sink would find them
locations        the locations of the regions of the peer cluster's tables
rounds           the actions of a shipment that go out at once
multi            clientService.Multi: the requests and their results
action_errors    the meaning of the exceptions in these results
calls            makes the calls of a round side by side, and reports what each has done and what has failed

tries            which errors of HBase's servers pass, and the waits after them
connections      a sender's connections to the peer cluster's RegionServers, and its share of the calls under way there
peer_cluster     the cluster of a peer while a group is shipped to it: its ZooKeeper and its RegionServers
manager          chooses the RegionServers that take shipments
hooks            finds the peer cluster's classes that see only replicated edits
reachable        checks quickly whether a peer cluster can be shipped to, before a job is started for it
"""
