"""What waits in the triggerer on ZooKeeper's watches. Airflow's database names these classes by their paths.

base             what our triggers have in common
dead_servers     triggers that fire when RegionServers have died and left queues of managed peers
new_wals         triggers that fire when closed WALs are queued for a managed peer
stuck_regions    a trigger that fires when regions of an HBase 1 cluster stay in one state longer than a limit
"""
