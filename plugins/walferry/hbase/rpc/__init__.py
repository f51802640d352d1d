"""HBase's wire protocol: messages and frames without I/O, a connection, the calls to a master or a RegionServer,
and a small server for calls that HBase makes.

    admin               calls to a RegionServer's AdminService (Admin.proto) other than shipping, including the regions of HBase 1
    bulk_load           bulk loads
    channel             a socket with layers that transform the bytes sent and received
    client              scans of a region through a RegionServer's ClientService (Client.proto)
    codec               encodes and decodes HBase's RPC without any I/O (RPC.proto, IPCUtil.write, ServerRpcConnection)
    connection          a blocking connection to one HBase server, for one call at a time, each with a deadline
    errors              the errors of calls, and whether a retry helps
    master              calls to the master about replication peers, tables and snapshots (MasterService in Master.proto)
    negotiation         negotiates a connection to an HBase server up to the first request, without I/O
    server              a small HBase RPC server
    server_codec        decodes requests and encodes the answers, without any I/O
"""
