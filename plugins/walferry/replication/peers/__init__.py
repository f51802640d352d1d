"""Replication peers: their records in HBase, and how Walferry ships them.

settings          all settings of a peer: names, defaults, units and checks
reading           peers, assembled from what HBase keeps of them, and whether they may be shipped
column_mappings   which typed columns a lake's tables have
topic_rules       into which topics of Kafka a peer's cells go
peer_tables       the tables of a peer's cluster
"""
