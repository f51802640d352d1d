"""A master's answers to RegionServers, over a real connection."""

import logging
from collections.abc import Callable

import pytest

from tests.unit.master.called_master import SETTINGS, A, B, lost, master, message, registry, report, role_is_held, start
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import RemoteError, ServerNotReady

__all__ = ["master", "registry", "role_is_held"]  # fixtures


def test_a_server_that_starts_is_told_its_name_and_where_the_files_are(master, registry):
    assert start(master, A) == {**SETTINGS, "hbase.regionserver.hostname.seen.by.master": "a.example.org"}
    assert start(master, B, host="b.example.org")["hbase.regionserver.hostname.seen.by.master"] == "b.example.org"


def test_a_server_that_started_under_another_master_is_let_in_by_its_report(master):
    report(master, B)
    report(master, B)


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
