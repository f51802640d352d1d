"""Answers the calls of HBase 1's RegionServers to their master: RegionServerStatusService (RegionServerStatus.proto).

A RegionServer starts only when its master has sent it its name. It then reports every few seconds, and aborts if the master
answers that it is dead. Before it splits a WAL of another server, it asks up to where a region was flushed. Here the answer is
always "unknown", so that it replays all edits: the region drops edits that it already has.

Source: HBase's MasterRpcServices, ServerManager, HRegionServer.handleReportForDutyResponse (branch-1.4).
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import one_line
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.server import Caller, Method, Services
from walferry.hbase.rpc.server_codec import CallRefused, JavaException

SERVICE = "RegionServerStatusService"
NO_SEQUENCE_ID = (1 << 64) - 1  # HConstants.NO_SEQNUM: -1, as a uint64 on the wire
MAX_SKEW_SECONDS = 30.0  # hbase.master.maxclockskew
WARNING_SKEW_SECONDS = 10.0  # hbase.master.warningclockskew
_NAME_SEEN = "hbase.regionserver.hostname.seen.by.master"
_MAX_FATAL_CHARS = 4000
_MAX_HOST_CHARS = 255  # of a name in DNS

log = logging.getLogger(__name__)


def host_name(address: str) -> str:
    """Return the name of a host by its address; the address itself if it has none."""
    try:
        return socket.gethostbyaddr(address)[0]
    except OSError:
        return address


class ServerRegistry:
    """The servers that were given up. Any thread may use the registry.

    ZooKeeper decides which servers are live, so the registry keeps nothing about servers that report: any caller may give any
    name. HBase also gives up a server when a newer server reports the same host and port. Here only the end of its session
    counts: otherwise any caller could make live servers abort. HBase then forgets a dead server; the registry never forgets it,
    because no later server has the same start code.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dead: set[ServerName] = set()
        self.reports = 0  # of servers, so far

    @property
    def dead(self) -> frozenset[ServerName]:
        """The given-up servers."""
        with self._lock:
            return frozenset(self._dead)

    def start(self, server: ServerName, its_clock_ms: int) -> None:
        """Let a server start. Raises Refused if its clock is far off, or if it was given up."""
        skew = abs(time.time() - its_clock_ms / 1000)
        if skew > MAX_SKEW_SECONDS:
            message = f"the clock of {server} is {skew:.1f} s off its master's; at most {MAX_SKEW_SECONDS:g} s are allowed"
            raise CallRefused(JavaException.CLOCK_OUT_OF_SYNC, message)
        if skew > WARNING_SKEW_SECONDS:
            log.warning("the clock of %s is %.1f s off; a server is refused from %g s on", server, skew, MAX_SKEW_SECONDS)
        self._check(server, "starts")

    def report(self, server: ServerName) -> None:
        """Take a server's report. The server may have started under another master. Raises Refused if it was given up."""
        self._check(server, "reports")
        self.reports += 1

    def give_up(self, server: ServerName) -> None:
        """From now on, tell the server that it is dead. Call this before its WALs are fenced."""
        with self._lock:
            self._dead.add(server)

    def _check(self, server: ServerName, what: str) -> None:
        with self._lock:
            if server in self._dead:
                raise CallRefused(
                    JavaException.YOU_ARE_DEAD, f"{server} {what}, but its regions are being opened at other servers"
                )


def of_master(methods: Mapping[str, Method], check: Callable[[], None]) -> dict[str, Method]:
    """Return methods that refuse each call once `check` raises a WalferryError, which says that the role is lost."""

    def checked(answer: Callable[[Any, Caller], Message]) -> Callable[[Any, Caller], Message]:
        def answered(request: Message, caller: Caller) -> Message:
            try:
                check()
            except WalferryError as error:
                raise CallRefused(JavaException.NOT_RUNNING_YET, str(error)) from error
            return answer(request, caller)

        return answered

    return {name: Method(method.parameter, checked(method.answer)) for name, method in methods.items()}


class MasterCalls:
    """The answers of the holder of the master's role.

    `check` raises a WalferryError once the role is lost: then a server gets no other answer, and looks for its master again. Each
    server takes `settings` into its configuration. A root folder among them must be written exactly as in the servers' own
    hbase-site.xml, because a server uses the root folder that it gets here.
    """

    def __init__(self, registry: ServerRegistry, check: Callable[[], None], settings: Mapping[str, str]) -> None:
        self._registry = registry
        self._check = check
        self._settings = dict(settings)

    def services(self) -> Services:
        """Return the services for an RpcServer."""
        methods = {
            "RegionServerStartup": Method(pb.RegionServerStartupRequest, self._startup),
            "RegionServerReport": Method(pb.RegionServerReportRequest, self._report),
            "ReportRSFatalError": Method(pb.ReportRSFatalErrorRequest, self._fatal_error),
            "GetLastFlushedSequenceId": Method(pb.GetLastFlushedSequenceIdRequest, self._last_flushed),
            "ReportRegionStateTransition": Method(pb.ReportRegionStateTransitionRequest, self._transition),
        }
        return {SERVICE: of_master(methods, self._check)}

    def _startup(self, request: pb.RegionServerStartupRequest, caller: Caller) -> pb.RegionServerStartupResponse:
        host = request.use_this_hostname_instead or host_name(caller.host)
        server = _server_name(host, request.port, request.server_start_code)
        self._registry.start(server, request.server_current_time)
        log.info("RegionServer %s starts", server)
        response = pb.RegionServerStartupResponse()
        # The server takes over the host name in this spelling.
        for name, value in {**self._settings, _NAME_SEEN: host}.items():
            response.map_entries.add(name=name, value=value)
        return response

    def _report(self, request: pb.RegionServerReportRequest, caller: Caller) -> pb.RegionServerReportResponse:
        self._registry.report(_of(request.server))
        return pb.RegionServerReportResponse()

    def _fatal_error(self, request: pb.ReportRSFatalErrorRequest, caller: Caller) -> pb.ReportRSFatalErrorResponse:
        log.error("RegionServer %s aborts: %s", _of(request.server), one_line(request.error_message, _MAX_FATAL_CHARS))
        return pb.ReportRSFatalErrorResponse()

    def _last_flushed(self, request: pb.GetLastFlushedSequenceIdRequest, caller: Caller) -> pb.GetLastFlushedSequenceIdResponse:
        return pb.GetLastFlushedSequenceIdResponse(last_flushed_sequence_id=NO_SEQUENCE_ID)

    def _transition(
        self, request: pb.ReportRegionStateTransitionRequest, caller: Caller
    ) -> pb.ReportRegionStateTransitionResponse:
        problem = f"{_of(request.server)} does not move regions through ZooKeeper. Set hbase.assignment.usezk to true there"
        log.warning("%s", problem)
        return pb.ReportRegionStateTransitionResponse(error_message=problem)


def _of(server: pb.ServerName) -> ServerName:
    return _server_name(server.host_name, server.port, server.start_code)


def _server_name(host: str, port: int, start_code: int) -> ServerName:
    """Return the name of a server. The name is kept and used in paths, so it must be valid. Raises Refused."""
    if len(host) > _MAX_HOST_CHARS:
        problem = f"a host's name has at most {_MAX_HOST_CHARS} characters, not {len(host):,}"
        raise CallRefused(JavaException.DO_NOT_RETRY, problem, do_not_retry=True)
    try:
        return ServerName.in_message(host, port, start_code)
    except ValueError as error:
        raise CallRefused(JavaException.DO_NOT_RETRY, str(error), do_not_retry=True) from error
