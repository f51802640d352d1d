"""Locks in ZooKeeper under which one run, or one task of it, ships a peer's edits.

peer_lock    which run holds the peer lock, and which task of that run ships rows of scans
"""
