"""Triggers, which wait in the triggerer on ZooKeeper's watches. Airflow's database names these classes by their paths.

base             the common base of our triggers
dead_servers     triggers that fire when RegionServers have died and left queues of managed peers
new_wals         triggers that fire when closed WALs are queued for a managed peer
stuck_regions    a trigger that fires when regions of an HBase 1 cluster stay in one state longer than a limit
"""
