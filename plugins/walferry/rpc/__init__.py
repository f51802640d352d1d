"""HBase's wire protocol: messages and frames without I/O, a connection, and the calls to a master or a RegionServer.

Stands on `protos`, `names` and `errors` only.
"""
