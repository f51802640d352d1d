"""Triggers, which wait in the triggerer on ZooKeeper's watches. Airflow's database names these classes by their paths.

base             the common base of our triggers
closed_wals      a trigger that fires when batches have something to do
dead_servers     triggers that fire when RegionServers have died and left queues of managed peers
new_wals         triggers that fire when closed WALs of one managed peer are queued that a cursor does not cover
no_master        a trigger that fires when a cluster of HBase 1 has had no master for a while
stuck_regions    a trigger that fires when regions of an HBase 1 cluster stay in one state longer than a limit
"""
