"""Calls to a RegionServer's AdminService (Admin.proto) other than shipping."""

from __future__ import annotations

from walferry.protos.hbase_pb2 import ReplicateWALEntryResponse, RollWALWriterRequest, RollWALWriterResponse
from walferry.rpc.connection import CALL_TIMEOUT_SECONDS, Address, Connection
from walferry.rpc.errors import RemoteError, RpcError

SERVICE = "AdminService"
# The longest answers are exceptions, with a stack trace. Many servers may be asked side by side, and not all mean well.
MAX_RESPONSE_BYTES = 4 * 1024 * 1024


def roll_wal_writer(server: Address, *, user: str | None = None, timeout: float = CALL_TIMEOUT_SECONDS) -> None:
    """Ask a RegionServer to close its WALs and begin new ones.

    The server answers before it rolls (RSRpcServices.rollWALWriter only requests the roll), so wait until the newer WAL is
    queued. Raises an RpcError. With AccessController the user needs global ADMIN.
    """
    with connect(server, user=user, timeout=timeout) as connection:
        connection.call("RollWALWriter", RollWALWriterRequest(), RollWALWriterResponse)


def answers(server: Address, *, user: str | None = None, timeout: float) -> bool:
    """Tell whether the server answers a call that costs it nothing.

    Shipments do not occupy its handlers for such calls (ADMIN_QOS).
    """
    try:
        with connect(server, user=user, timeout=timeout) as connection:
            connection.call("GetServerInfo", b"", ReplicateWALEntryResponse)  # any message without required fields works
    except RemoteError:
        return True
    except RpcError:
        return False
    return True


def connect(server: Address, *, user: str | None = None, timeout: float = CALL_TIMEOUT_SECONDS) -> Connection:
    """A connection to a server's AdminService, to be used as a context manager."""
    return Connection(
        server.host, server.port, SERVICE, user=user, call_timeout=timeout, max_response_bytes=MAX_RESPONSE_BYTES
    )
