"""HBase's wire protocol: messages and frames without I/O, a connection, the calls to a master or a RegionServer,
and a small server for what they call.

    admin               calls to a RegionServer's AdminService (Admin.proto) other than shipping; HBase 1's regions among them
    bulk_load           bulk loads
    channel             a socket with layers on it that turn what is sent and received into something else
    client              scans of a region through a RegionServer's ClientService (Client.proto)
    codec               encodes and decodes HBase's RPC without any I/O (RPC.proto, IPCUtil.write, ServerRpcConnection)
    connection          a blocking connection to one HBase server, for one call at a time, each with a deadline
    errors              what calls end with, and whether trying again helps
    master              calls to the master about replication peers, tables and snapshots (MasterService in Master.proto)
    negotiation         how a connection to an HBase server begins, up to the first request, without I/O
    server              a small HBase RPC server
    server_codec        decodes what a client sends and encodes the answers, without any I/O
"""
