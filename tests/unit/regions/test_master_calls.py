"""What RegionServers are told by a master, over a real connection."""

import logging
from collections.abc import Callable, Iterator

import pytest

from walferry.names import ServerName
from walferry.protos import hbase_pb2 as pb
from walferry.regions.errors import RoleLost
from walferry.regions.master_calls import SERVICE, MasterCalls
from walferry.regions.registry import ServerRegistry
from walferry.rpc.connection import Connection
from walferry.rpc.errors import RemoteError, ServerNotReady
from walferry.rpc.server import RpcServer
from walferry.security.login import Login

NOW = 1_700_000_000.0
A = ServerName("a.example.org", 16020, 100)
A_LATER = ServerName("a.example.org", 16020, 200)
B = ServerName("b.example.org", 16020, 150)
SETTINGS = {"hbase.rootdir": "hdfs://nn:8020/hbase", "fs.defaultFS": "hdfs://nn:8020"}

lost: list[str] = []


def check() -> None:
    if lost:
        raise RoleLost(lost[0])


@pytest.fixture(autouse=True)
def role_is_held() -> Iterator[None]:
    yield
    lost.clear()


@pytest.fixture
def registry() -> ServerRegistry:
    return ServerRegistry(lambda: NOW)


@pytest.fixture
def master(registry: ServerRegistry) -> Iterator[Connection]:
    calls = MasterCalls(registry, check, SETTINGS, name_of=lambda address: {"127.0.0.1": "a.example.org"}[address])
    login = Login(user="hbase")
    with RpcServer(calls.services()) as server, Connection("127.0.0.1", server.port, SERVICE, login=login) as connection:
        yield connection


def start(master: Connection, server: ServerName, skew: float = 0.0, host: str = "") -> dict[str, str]:
    request = pb.RegionServerStartupRequest(
        port=server.port, server_start_code=server.start_code, server_current_time=int((NOW + skew) * 1000)
    )
    if host:
        request.use_this_hostname_instead = host
    answer = master.call("RegionServerStartup", request, pb.RegionServerStartupResponse)
    return {entry.name: entry.value for entry in answer.map_entries}


def message(server: ServerName) -> pb.ServerName:
    return pb.ServerName(host_name=server.host, port=server.port, start_code=server.start_code)


def report(master: Connection, server: ServerName) -> None:
    master.call("RegionServerReport", pb.RegionServerReportRequest(server=message(server)), pb.RegionServerReportResponse)


def test_a_server_that_starts_is_told_its_name_and_where_the_files_are(master, registry):
    assert start(master, A) == {**SETTINGS, "hbase.regionserver.hostname.seen.by.master": "a.example.org"}
    assert start(master, B, host="b.example.org")["hbase.regionserver.hostname.seen.by.master"] == "b.example.org"


def test_a_server_that_started_under_another_master_is_let_in_by_its_report(master):
    report(master, B)
    report(master, B)


@pytest.mark.parametrize("skew", [-31.0, 31.0])
def test_a_server_whose_clock_is_far_off_is_refused(master, registry, skew):
    with pytest.raises(RemoteError, match=r"ClockOutOfSyncException: .*the clock of a\.example\.org,16020,100 is 31\.0 s off"):
        start(master, A, skew)


def test_a_server_whose_clock_is_a_little_off_is_let_in_with_a_warning(master, registry, caplog):
    with caplog.at_level(logging.WARNING):
        start(master, A, 11.0)
        start(master, B, 9.0, host="b.example.org")
    assert [record.getMessage() for record in caplog.records] == [
        "the clock of a.example.org,16020,100 is 11.0 s off; a server is refused from 30 s on"
    ]


def test_a_server_that_was_given_up_is_told_that_it_is_dead(master, registry):
    start(master, A)
    registry.give_up(A)
    for call in (lambda: report(master, A), lambda: start(master, A)):
        with pytest.raises(RemoteError, match=r"YouAreDeadException: .*a\.example\.org,16020,100") as raised:
            call()
        assert not raised.value.do_not_retry
    start(master, A_LATER)
    report(master, A_LATER)
    assert registry.dead == {A}


@pytest.mark.parametrize("call", [start, report])
def test_a_caller_that_names_a_newer_server_of_a_host_and_port_does_not_end_the_older_one(master, registry, call):
    start(master, A)
    call(master, A_LATER)
    report(master, A)  # only the end of its session in ZooKeeper says that it is dead
    assert not registry.dead


@pytest.mark.parametrize("host", ["../../etc", "a b", "a,1,2", "h\n"])
def test_a_name_that_is_none_is_refused(master, registry, host):
    with pytest.raises(RemoteError, match=r"DoNotRetryIOException: .*is not a server name"):
        start(master, A, host=host)
    with pytest.raises(RemoteError, match="is not a server name"):
        report(master, ServerName(host, 1, 1))


def test_a_host_name_that_is_too_long_for_dns_is_not_kept(master, registry):
    with pytest.raises(RemoteError, match=r"DoNotRetryIOException: .*a host's name has at most 255 characters"):
        start(master, A, host="h" * 1_000_000)
    with pytest.raises(RemoteError, match="at most 255 characters"):
        report(master, ServerName("h" * 256, 1, 1))


def test_nothing_is_known_of_what_was_flushed(master):
    request = pb.GetLastFlushedSequenceIdRequest(region_name=b"0" * 32)
    answer = master.call("GetLastFlushedSequenceId", request, pb.GetLastFlushedSequenceIdResponse)
    assert answer.last_flushed_sequence_id == 2**64 - 1


def test_a_servers_last_words_go_to_the_log_on_one_line(master, caplog):
    request = pb.ReportRSFatalErrorRequest(server=message(A), error_message="the disk\nis\x1b[31m full" + "x" * 10_000)
    with caplog.at_level(logging.ERROR):
        master.call("ReportRSFatalError", request, pb.ReportRSFatalErrorResponse)
    (record,) = caplog.records
    assert record.getMessage().startswith("RegionServer a.example.org,16020,100 aborts: the disk is [31m full")
    assert len(record.getMessage()) < 5000


def test_a_server_without_transitions_in_zookeeper_is_told_what_to_set(master):
    request = pb.ReportRegionStateTransitionRequest(server=message(A))
    answer = master.call("ReportRegionStateTransition", request, pb.ReportRegionStateTransitionResponse)
    assert "a.example.org,16020,100" in answer.error_message
    assert "hbase.assignment.usezk" in answer.error_message


def test_nobody_is_told_anything_once_the_role_is_lost(master, registry):
    start(master, A)
    registry.give_up(A)
    lost.append("its session has ended")
    calls: list[Callable[[], object]] = [lambda: start(master, A), lambda: report(master, A), lambda: report(master, B)]
    for call in calls:
        with pytest.raises(ServerNotReady, match="no longer acts as the cluster's master: its session has ended"):
            call()
