"""Which exceptions in a result mean that an action is to be sent again."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.errors import AccessDenied, ColumnFamilyNotFound, ProtocolError, RemoteError, ServerStopped
from walferry.replication.sinks.hbase.action_errors import action_error

HBASE = "org.apache.hadoop.hbase."


def error_of(name: str, text: str = "text") -> RemoteError:
    trace = f"{name}: {text}\n\tat {HBASE}regionserver.HRegion.x(HRegion.java:1)\n"
    return action_error("rs:1", pb.NameBytesPair(name=name, value=trace.encode()).SerializeToString())


@pytest.mark.parametrize(
    "name",
    [
        "NotServingRegionException",
        "exceptions.RegionMovedException",
        "exceptions.RegionOpeningException",
        "RegionTooBusyException",
        "quotas.RpcThrottlingException",
        "regionserver.RegionServerAbortedException",
        "regionserver.wal.WALSyncTimeoutIOException",
    ],
)
def test_what_may_go_better_elsewhere_or_later_is_sent_again(name):
    error = error_of(HBASE + name)
    assert not error.do_not_retry
    assert str(error) == f"rs:1: {name.rpartition('.')[2]}: text"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (HBASE + "security.AccessDeniedException", AccessDenied),
        (HBASE + "DoNotRetryIOException", RemoteError),
        (HBASE + "quotas.SpaceLimitingException", RemoteError),
        (HBASE + "exceptions.FailedSanityCheckException", RemoteError),
        ("java.lang.UnsupportedOperationException", RemoteError),
    ],
)
def test_what_is_refused_is_not_sent_again(name, kind):
    error = error_of(name)
    assert error.do_not_retry
    assert type(error) is kind


def test_a_row_of_another_region_is_sent_again_though_the_class_says_not_to():
    text = "Requested row out of range for doMiniBatchMutation on HRegion t"
    error = error_of(HBASE + "exceptions.FailedSanityCheckException", text)
    assert not error.do_not_retry


def test_a_server_that_stops_rules_out_only_itself():
    error = error_of("java.io.IOException", "Connection is closed")
    assert isinstance(error, ServerStopped)
    assert not error.do_not_retry


def test_a_missing_family_is_named_with_its_table():
    error = error_of(
        HBASE + "regionserver.NoSuchColumnFamilyException",
        "Column family g does not exist in region ns:t,,17.0abc. in table 'ns:t', {TABLE_ATTRIBUTES => {}}",
    )
    assert isinstance(error, ColumnFamilyNotFound)
    assert (error.table, error.family) == ("ns:t", "g")


@pytest.mark.parametrize(
    ("encoded", "problem"),
    [
        (b"\xff", "there is no field at its byte 0"),
        (b"\x0a\x01E\x0a\x05E", "there is no field at its byte 3"),
        (b"\x0a\x01E\x12\xff", "there is no field at its byte 3"),
        (b"\x0a\x01\xff", r"the class name b'\xff' is not UTF-8"),
        (b"\x12\x01v", "it has no class name"),
        (b"", "it has no class name"),
    ],
)
def test_an_exception_that_cannot_be_parsed_is_a_protocol_error(encoded, problem):
    with pytest.raises(ProtocolError, match=f"rs:1 .* an exception in the result: {re.escape(problem)}"):
        action_error("rs:1", encoded)


def test_a_long_exception_tells_as_much_as_its_beginning_does():
    name, text = HBASE + "NotServingRegionException", "x" * 100_000
    whole = pb.NameBytesPair(name=name, value=f"{name}: {text}".encode()).SerializeToString()
    assert str(action_error("rs:1", whole[:16384])) == str(action_error("rs:1", whole))
    assert action_error("rs:1", whole[:60]).class_name == name


@given(st.binary(max_size=40))
def test_no_bytes_of_a_server_lead_to_another_error(encoded):
    with contextlib.suppress(ProtocolError):
        action_error("rs:1", encoded)
