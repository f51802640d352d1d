"""Replication peers: their records in HBase, and how Walferry ships them.

settings        all settings of a peer: names, defaults, units and checks
reading         peers as HBase keeps them, and whether they may be shipped
peer_tables     the tables of a peer's cluster
"""
