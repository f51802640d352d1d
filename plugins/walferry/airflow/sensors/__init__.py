"""Deferrable sensors: new WALs, dead servers, stuck regions.

base             the common base of our sensors: how they fail, and which texts are templates
dead_servers     a sensor for RegionServers that have died and left queues of managed peers
new_wals         a sensor for closed WALs that are new in a managed peer's queues
stuck_regions    a sensor for regions that stay in one state of their transition for too long
"""
