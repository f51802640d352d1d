"""HBase 1: regions, and how a master and RegionServers move them through ZooKeeper.

`states` names the states of a region in transition, `transitions` is the one table of who may change which state into which,
`znodes` reads and writes the znode of a region in transition, and `writes` is the only way to change one. `plans` keeps the
destinations of regions in ZooKeeper.

`role` is the right to act as the cluster's master (with the znodes of `cluster_znodes`), and `master_calls` answers the
RegionServers' calls to their master meanwhile. `calls` calls the RegionServers.

`decide` chooses the next step for a region, and `reconcile` takes these steps for all regions: each flow ends there. `startup`,
`wal_splitting`, `placement` (with `locality`) and `tables` make a flow's first writes, `catalog` reads hbase:meta, and
`role_loop` runs all these modules in a loop.

`keeping` keeps the role for as long as there is no HMaster, and answers clients by `client_calls`; `no_master_stream` waits until
there is none.

For operators, `explain` describes a region, `requests` checks operators' requests, `work` carries them out with the master's
role, and `emergency` starts a cluster whose HMaster does not start. `beside_active_master` acts while an HMaster is active, and
`stuck_stream` waits for regions that are stuck. The commands for operators are in `cli`.

    beside_active_master    an operator's actions while an HMaster is active
    client_calls            the answers to clients' calls that enable and disable tables
    errors                  errors about regions in transition
    keeping                 the master who watches
    no_master_stream        announces that a cluster has had no master for a while
    role_loop               the master's role at work
    snapshot                one look at a cluster, and the decision for each of its regions
    survey                  the regions that are in transition, in trouble or not served
"""
