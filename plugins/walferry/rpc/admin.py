"""Calls to a RegionServer's AdminService (Admin.proto), other than shipping."""

from __future__ import annotations

from walferry.protos.hbase_pb2 import ReplicateWALEntryResponse, RollWALWriterRequest, RollWALWriterResponse
from walferry.rpc.connection import CALL_TIMEOUT_S, Address, Connection
from walferry.rpc.errors import RemoteError, RpcError

SERVICE = "AdminService"


def roll_wal_writer(server: Address, *, user: str | None = None, timeout: float = CALL_TIMEOUT_S) -> None:
    """Ask a RegionServer to close its WALs and begin new ones.

    It answers as soon as it has taken note (RSRpcServices.rollWALWriter only requests the roll): wait for the newer WAL
    to be queued. Raises an RpcError. User needs nothing without AccessController, global ADMIN with it.
    """
    with Connection(server.host, server.port, SERVICE, user=user, call_timeout=timeout) as connection:
        connection.call("RollWALWriter", RollWALWriterRequest(), RollWALWriterResponse)


def answers(server: Address, *, user: str | None = None, timeout: float) -> bool:
    """Whether the server answers a call that costs it nothing, by handlers which shipments do not occupy (ADMIN_QOS)."""
    try:
        with Connection(server.host, server.port, SERVICE, user=user, call_timeout=timeout) as connection:
            connection.call("GetServerInfo", b"", ReplicateWALEntryResponse)  # any message without required fields will do
    except RemoteError:
        return True
    except RpcError:
        return False
    return True
