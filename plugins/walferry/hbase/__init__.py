"""HBase's znodes: their paths (`layout`), their values, and what they say about a cluster and its peers.

Imports `zk`, `protos` and `names`.
"""
