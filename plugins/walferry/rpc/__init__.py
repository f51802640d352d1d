"""HBase's wire protocol: messages and frames without I/O, a connection, the calls to a master or a RegionServer,
and a small server for what they call.

This package imports only `protos`, `names`, `texts` and `errors` of the library.
"""
