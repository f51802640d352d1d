"""HBase's wire protocol: messages and frames without I/O, a connection, and the calls to a master or a RegionServer.

This package imports only `protos`, `names`, `texts` and `errors` of the library.
"""
