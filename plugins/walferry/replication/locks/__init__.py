"""Locks in ZooKeeper under which one run, or one task of it, ships a peer's edits.

peer_lock    which run holds the peer lock
row_lock     which task of that run ships rows of scans
"""
