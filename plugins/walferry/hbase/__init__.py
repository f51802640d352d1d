"""HBase's znodes: where they lie, what their values mean, what a cluster and its peers say of themselves.

Stands on `zk`, `protos` and `names`.
"""
