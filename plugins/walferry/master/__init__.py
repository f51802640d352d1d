"""HBase 1: regions, and how a master and RegionServers move them through ZooKeeper.

`states` names the states of a region in transition, `transitions` is the one table of who may change which state into which,
`znodes` reads and writes the znode of a region in transition, and `writes` is the only way to change one. `plans` keeps in
ZooKeeper where a region is to go.

`role` is the right to act as the cluster's master (`cluster_znodes`), and `master_calls` answers what RegionServers ask their
master meanwhile. `calls` asks the RegionServers.

`decide` says what comes next for a region, and `reconcile` does it for all of them: each flow ends there. `startup`,
`wal_splitting`, `placement` (with `locality`) and `tables` make its first writes, `catalog` reads what
hbase:meta says, and `role_loop` runs all of it in a loop.

For operators, `explain` tells what a look has found, `requests` checks what they ask for, `work` does it with the master's role,
and `emergency` starts a cluster whose HMaster does not start. `beside_active_master` is what can be done while an HMaster is
active, and `stuck_stream` waits for regions that are stuck. Their commands are in `cli`.

    beside_active_master    what an operator can do beside an active HMaster
    errors                  errors about regions in transition
    role_loop               the master's role at work
    snapshot                one look at a cluster, and what is decided for each of its regions
    survey                  the regions that are in transition, in trouble or not served
"""
