"""Calls to a RegionServer's AdminService (Admin.proto) other than shipping."""

from __future__ import annotations

from walferry.base.protos.hbase_pb2 import ReplicateWALEntryResponse, RollWALWriterRequest, RollWALWriterResponse
from walferry.base.security.login import UNSECURED, Login
from walferry.hbase.rpc.connection import CALL_TIMEOUT_SECONDS, Address, Connection
from walferry.hbase.rpc.errors import AccessDenied, RemoteError, RpcError

SERVICE = "AdminService"
# The longest answers are exceptions, with a stack trace. Many servers may be asked side by side, and not all mean well.
MAX_RESPONSE_BYTES = 4 * 1024 * 1024


def roll_wal_writer(server: Address, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS) -> None:
    """Ask a RegionServer to close its WALs and begin new ones.

    The server answers before it rolls (RSRpcServices.rollWALWriter only requests the roll), so wait until the newer WAL is
    queued. Raises an RpcError. With AccessController the user needs global ADMIN.
    """
    with connect(server, login=login, timeout=timeout) as connection:
        connection.call("RollWALWriter", RollWALWriterRequest(), RollWALWriterResponse)


def answers(server: Address, *, login: Login = UNSECURED, timeout: float) -> bool:
    """Tell whether the server lets us in and answers a call that costs it nothing."""
    return why_silent(server, login=login, timeout=timeout) is None


def why_silent(server: Address, *, login: Login = UNSECURED, timeout: float) -> RpcError | None:
    """Why the server does not answer a call that costs it nothing; None if it does, whatever it says.

    Shipments do not occupy its handlers for such calls (ADMIN_QOS). They need no right, so AccessDenied means that the server
    does not let us in.
    """
    try:
        with connect(server, login=login, timeout=timeout) as connection:
            connection.call("GetServerInfo", b"", ReplicateWALEntryResponse)  # any message without required fields works
    except AccessDenied as error:
        return error
    except RemoteError:
        return None
    except RpcError as error:
        return error
    return None


def connect(server: Address, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS) -> Connection:
    """A connection to a server's AdminService, to be used as a context manager."""
    return Connection(server.host, server.port, SERVICE, login=login, call_timeout=timeout, max_response_bytes=MAX_RESPONSE_BYTES)
