"""Scans of a region through a RegionServer's ClientService (Client.proto)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS
from walferry.hbase.rpc.connection import CALL_TIMEOUT_SECONDS, Connection
from walferry.hbase.rpc.errors import RemoteError, RpcError

SERVICE = "ClientService"
CLOSE_TIMEOUT_SECONDS = 5.0
_MANY_ROWS = 0x7FFFFFFF  # an answer's size is limited by bytes


def connect(server: ServerName, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS) -> Connection:
    """Return a connection to a RegionServer for scans, to be used as a context manager. Cells come with their tags."""
    codec = KEY_VALUE_CODEC_WITH_TAGS
    return Connection(server.host, server.port, SERVICE, login=login, cell_codec=codec, call_timeout=timeout)


def region_specifier(region: bytes) -> pb.RegionSpecifier:
    """Return the message that names a region by its full name."""
    return pb.RegionSpecifier(type=pb.RegionSpecifier.REGION_NAME, value=region)


@dataclass(frozen=True)
class ScanAnswer:
    """The result of one call of a scan. Heartbeats contain no cells."""

    cells: memoryview  # in the layout of hbase/wal/cells.py
    count: int
    partial: bool  # the last row may have more cells, which then come with the next answer
    more: bool  # the region may have more rows


class RegionScanner:
    """A scanner of one region. Its first call opens it. The server closes it at the region's end, or after a minute unused."""

    def __init__(self, connection: Connection, region: bytes, scan: pb.Scan, *, rows_a_call: int = _MANY_ROWS) -> None:
        self._connection = connection
        self._open = pb.ScanRequest(scan=scan, region=region_specifier(region))
        self.rows_a_call = rows_a_call
        self._scanner_id: int | None = None
        self._calls = 0
        self._ended = False

    def next(self, seconds: float | None = None) -> ScanAnswer:
        """Ask for the next cells, within `seconds` if given. After an RpcError the scanner is useless."""
        try:
            response, cells = self._connection.call_for_cells("Scan", self._request(), pb.ScanResponse, timeout=seconds)
        except RpcError as error:
            if not isinstance(error, RemoteError):
                self._ended = True  # the server frees the scanner by itself; another wait would take as long again
            raise
        self._scanner_id = response.scanner_id if response.HasField("scanner_id") else self._scanner_id
        count = sum(response.cells_per_result)
        # Servers before HBase 1.1 show the end only by an answer without results.
        more = response.more_results_in_region if response.HasField("more_results_in_region") else count > 0
        if response.HasField("more_results") and not response.more_results:
            more = False
        self._ended = not more
        partial = more and bool(response.partial_flag_per_result) and response.partial_flag_per_result[-1]
        return ScanAnswer(cells, count, partial, more)

    def close(self) -> None:
        """Ask the server to free the scanner's resources if the scanner is still open."""
        if self._scanner_id is None or self._ended:
            return
        request = pb.ScanRequest(scanner_id=self._scanner_id, close_scanner=True, number_of_rows=0)
        with contextlib.suppress(RpcError):
            self._connection.call("Scan", request, pb.ScanResponse, timeout=CLOSE_TIMEOUT_SECONDS)
        self._ended = True

    def _request(self) -> pb.ScanRequest:
        if self._scanner_id is None:
            request = self._open
        else:
            request = pb.ScanRequest(scanner_id=self._scanner_id, next_call_seq=self._calls)
            self._calls += 1
        request.number_of_rows = self.rows_a_call
        request.client_handles_partials = request.client_handles_heartbeats = True
        return request
