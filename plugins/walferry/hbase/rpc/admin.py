"""Calls to a RegionServer's AdminService (Admin.proto) other than shipping.

A master of HBase 1 makes servers open and close regions through this service (branch-1.4). The answer to an open or a close
proves little: OPENED and `closed` also come when nothing happens. The region's znode and `online_regions` show its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.connection import CALL_TIMEOUT_SECONDS, Connection
from walferry.hbase.rpc.errors import AccessDenied, RemoteError, RpcError

SERVICE = "AdminService"
# The longest answers are exceptions, with a stack trace. We may ask many servers side by side, and some may be hostile.
MAX_RESPONSE_BYTES = 4 * 1024 * 1024
MAX_REGIONS_BYTES = 16 * 1024 * 1024  # 10,000 regions with keys of 750 bytes; once parsed they take up to 35 times as much


def roll_wal_writer(server: ServerName, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS) -> None:
    """Ask a RegionServer to close its WALs and begin new ones.

    The server answers before it rolls (RSRpcServices.rollWALWriter only requests the roll), so wait until the newer WAL is
    queued. Raises an RpcError. With AccessController the user needs global ADMIN.
    """
    with connect(server, login=login, timeout=timeout) as connection:
        connection.call("RollWALWriter", pb.RollWALWriterRequest(), pb.RollWALWriterResponse)


def region_loads(server: ServerName, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS) -> list[pb.RegionLoad]:
    """Return the numbers that the server keeps for each region that it serves now. Raises an RpcError: HBase 1 has no such call.

    The call needs no permission, and the server makes its answer from what it has in memory.
    """
    with connect(server, login=login, timeout=timeout, most_bytes=MAX_REGIONS_BYTES) as connection:
        return list(connection.call("GetRegionLoad", pb.GetRegionLoadRequest(), pb.GetRegionLoadResponse).region_loads)


def why_silent(server: ServerName, *, login: Login = UNSECURED, timeout: float) -> RpcError | None:
    """Return why the server does not answer a call that costs it nothing, or None if it answers anything.

    Shipments do not occupy the handlers of this call (ADMIN_QOS). The call needs no permission, so AccessDenied means that the
    server does not let us in.
    """
    try:
        with connect(server, login=login, timeout=timeout) as connection:
            connection.call("GetServerInfo", b"", pb.ReplicateWALEntryResponse)  # any message without required fields works
    except AccessDenied as error:
        return error
    except RemoteError:
        return None
    except RpcError as error:
        return error
    return None


def connect(
    server: ServerName, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS, most_bytes: int = MAX_RESPONSE_BYTES
) -> Connection:
    """Return a connection to a server's AdminService, to be used as a context manager."""
    return Connection(server.host, server.port, SERVICE, login=login, call_timeout=timeout, max_response_bytes=most_bytes)


class AnotherServer(RpcError):
    """Another server has taken the host and port of the server that we asked."""

    def __init__(self, asked: ServerName, found: str) -> None:
        super().__init__(f"{found} answers in place of {asked}", "Its session with ZooKeeper will end; then try again")


def online_regions(server: ServerName, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS) -> list[pb.RegionInfo]:
    """List the regions that the server serves now. Raises an RpcError, also if another server answers in its place."""
    with connect(server, login=login, timeout=timeout, most_bytes=MAX_REGIONS_BYTES) as connection:
        answer = connection.call("GetOnlineRegion", pb.GetOnlineRegionRequest(), pb.GetOnlineRegionResponse)
        # Asked afterwards: if the server is replaced between the two calls, the later call shows it.
        who = connection.call("GetServerInfo", pb.GetServerInfoRequest(), pb.GetServerInfoResponse).server_info.server_name
        if (who.host_name.lower(), who.port, who.start_code) != (server.host.lower(), server.port, server.start_code):
            raise AnotherServer(server, f"{who.host_name[:200]},{who.port},{who.start_code}")
        return list(answer.region_info)


def open_regions(
    server: ServerName, regions: Iterable[tuple[pb.RegionInfo, int]], now_ms: int, *, login: Login = UNSECURED
) -> None:
    """Ask the server to open regions, each at the version of its OFFLINE znode. Raises an RpcError.

    From then on hbase:meta names the server, with the timestamp `now_ms`. A server with another start code refuses.
    """
    request = pb.OpenRegionRequest(serverStartCode=server.start_code, master_system_time=now_ms)
    for region, version in regions:
        request.open_info.add(region=region, version_of_offline_node=version, openForDistributedLogReplay=False)
    with connect(server, login=login, most_bytes=MAX_REGIONS_BYTES) as connection:
        connection.call("OpenRegion", request, pb.OpenRegionResponse)


def close_regions(
    server: ServerName, versions: Mapping[str, int], *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS
) -> dict[str, RemoteError]:
    """Ask the server to close regions by encoded name, each at the version of its CLOSING znode. Returns its refusals.

    Raises an RpcError at the first call without an answer, and does not ask for the regions after it.
    """
    refused = {}
    with connect(server, login=login, timeout=timeout, most_bytes=MAX_REGIONS_BYTES) as connection:
        for encoded_name, version in versions.items():
            try:
                _close(connection, server, encoded_name, version)
            except RemoteError as error:
                refused[encoded_name] = error
    return refused


def close_copy(server: ServerName, encoded_name: str, *, login: Login = UNSECURED) -> None:
    """Ask the server to close an unwanted copy of a region without touching ZooKeeper. Raises an RpcError."""
    with connect(server, login=login, most_bytes=MAX_REGIONS_BYTES) as connection:
        _close(connection, server, encoded_name, None)


def _close(connection: Connection, server: ServerName, encoded_name: str, version: int | None) -> None:
    request = pb.CloseRegionRequest(serverStartCode=server.start_code, transition_in_ZK=version is not None)
    request.region.type, request.region.value = pb.RegionSpecifier.ENCODED_REGION_NAME, encoded_name.encode()
    if version is not None:
        request.version_of_closing_node = version
    connection.call("CloseRegion", request, pb.CloseRegionResponse)
