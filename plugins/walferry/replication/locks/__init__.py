"""Locks in ZooKeeper under which one run, or one task of it, ships a peer's edits.

peer_lock    the peer lock, which one run holds at a time, and the locks of its tasks that ship rows of scans
"""
