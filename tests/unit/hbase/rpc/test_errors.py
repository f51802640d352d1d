import pickle

import pytest

from walferry.base.protos.hbase_pb2 import ExceptionResponse
from walferry.hbase.rpc import errors
from walferry.hbase.rpc.errors import remote_error

FRAMES = "\n\tat org.apache.hadoop.hbase.ipc.RpcServer.call(RpcServer.java:511)\n\tat x.Y.z(Y.java:1)"


def error(class_name: str, text: str, do_not_retry: bool = False) -> errors.RemoteError:
    return remote_error(
        "h:16020", ExceptionResponse(exception_class_name=class_name, stack_trace=text, do_not_retry=do_not_retry)
    )


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("org.apache.hadoop.hbase.TableNotFoundException: 'ns:t1'" + FRAMES, "ns:t1"),
        ("org.apache.hadoop.hbase.TableNotFoundException: t1" + FRAMES, "t1"),
        ("org.apache.hadoop.hbase.TableNotFoundException: Table 't1' was not found, got: t2." + FRAMES, "t1"),
        ("org.apache.hadoop.hbase.TableNotFoundException", None),
    ],
)
def test_a_missing_table_is_named(text, table):
    found = error("org.apache.hadoop.hbase.TableNotFoundException", text, do_not_retry=True)
    assert isinstance(found, errors.TableNotFound)
    assert found.table == table
    assert found.do_not_retry


def test_a_missing_table_inside_the_exception_of_the_sinks_own_client_is_found():
    found = error(
        "org.apache.hadoop.hbase.client.RetriesExhaustedException",
        "org.apache.hadoop.hbase.client.RetriesExhaustedException: Failed after attempts=1, exceptions:"
        + FRAMES
        + "\nCaused by: org.apache.hadoop.hbase.TableNotFoundException: ns:t1\n\tat a.B.c(B.java:2)",
    )
    assert isinstance(found, errors.TableNotFound)
    assert found.table == "ns:t1"
    assert found.do_not_retry


def test_a_missing_column_family_is_named_with_its_table():
    found = error(
        "org.apache.hadoop.hbase.client.RetriesExhaustedException",
        "org.apache.hadoop.hbase.client.RetriesExhaustedException: Failed after attempts=1, exceptions:\n"
        "2026-11-21T01:58:39.987Z, localhost,38955,1795226190141, "
        "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: "
        "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: Column family nofam does not exist in region "
        "ns:t1,,1795226200196.1bfcad50ce9954b55920822736d1e264. in table 'ns:t1', {NAME => 'info'}" + FRAMES,
    )
    assert isinstance(found, errors.ColumnFamilyNotFound)
    assert (found.table, found.family) == ("ns:t1", "nofam")
    assert found.do_not_retry
    assert "column family nofam of table ns:t1 does not exist there" in str(found)


def test_an_impossible_table_name_is_not_tried_again():
    found = error("java.io.IOException", "java.io.IOException: Illegal character code:65533, <?> at 0" + FRAMES + (
        "\nCaused by: java.lang.IllegalArgumentException: Illegal character code:65533, <?> at 0" + FRAMES
    ))  # fmt: skip
    assert found.do_not_retry
    assert "Illegal character code:65533" in str(found)


@pytest.mark.parametrize(
    ("class_name", "kind"),
    [
        ("org.apache.hadoop.hbase.regionserver.RegionServerStoppedException", errors.ServerStopped),
        ("org.apache.hadoop.hbase.regionserver.RegionServerAbortedException", errors.ServerAborted),
        ("org.apache.hadoop.hbase.ipc.StoppedRpcClientException", errors.ServerStopped),
        ("org.apache.hadoop.hbase.ipc.ServerNotRunningYetException", errors.ServerNotReady),
        ("org.apache.hadoop.hbase.PleaseHoldException", errors.ServerNotReady),
        ("org.apache.hadoop.hbase.CallQueueTooBigException", errors.CallQueueTooBig),
        ("org.apache.hadoop.hbase.CallDroppedException", errors.ServerOverloaded),
        ("org.apache.hadoop.hbase.exceptions.RequestTooBigException", errors.RequestTooBig),
        ("org.apache.hadoop.hbase.security.AccessDeniedException", errors.AccessDenied),
        ("org.apache.hadoop.hbase.ipc.UnknownServiceException", errors.FatalConnection),
        ("org.apache.hadoop.hbase.ReplicationPeerNotFoundException", errors.PeerNotFound),
        ("org.apache.hadoop.hbase.security.Some$AccessDeniedException", errors.AccessDenied),
        ("java.io.IOException", errors.RemoteError),
        ("", errors.RemoteError),
    ],
)
def test_java_classes_become_types(class_name, kind):
    assert type(error(class_name, f"{class_name}: why")) is kind


@pytest.mark.parametrize("do_not_retry", [True, False])
def test_do_not_retry_is_kept(do_not_retry):
    assert error("java.io.IOException", "java.io.IOException: why", do_not_retry).do_not_retry is do_not_retry


@pytest.mark.parametrize(
    ("class_name", "message"),
    [
        ("org.apache.hadoop.hbase.ipc.StoppedRpcClientException", ""),
        ("org.apache.hadoop.hbase.DoNotRetryIOException", "Client already closed"),
        ("org.apache.hadoop.hbase.client.ConnectionImplementation$LocalConnectionClosedException", "Connection is closed."),
    ],
)
def test_a_server_that_stops_may_be_retried_elsewhere_whatever_its_exception_says(class_name, message):
    found = error(class_name, f"{class_name}: {message}" + FRAMES, do_not_retry=True)
    assert isinstance(found, errors.ServerStopped)
    assert not found.do_not_retry


def test_the_message_has_no_stack_frames_but_the_innermost_cause():
    found = error(
        "java.io.IOException",
        "java.io.IOException: Expected=3,\nindex=1" + FRAMES + "\nCaused by: a.B: one\n\tat q\nCaused by: a.C: two\n\tat q",
    )
    assert str(found) == "h:16020: IOException: Expected=3, index=1 (caused by a.C: two)"
    assert "RpcServer.java" in found.stack_trace


def test_long_messages_of_a_server_are_cut():
    found = error("java.io.IOException", "java.io.IOException: " + "x" * 1_000_000)
    assert len(found.message) == errors.MAX_MESSAGE_CHARS
    assert len(found.stack_trace) == errors.MAX_TRACE_CHARS


def test_a_server_s_message_becomes_one_short_line():
    found = error("a\nFAILED\x1b[2J" + "x" * 1_000_000, "boom" + FRAMES + "\nCaused by: a\rFAILED\u2028FAILED\x1b[2J")
    assert str(found).isprintable()
    assert len(str(found)) < 2 * errors.MAX_MESSAGE_CHARS
    failed = error("a.TableNotFoundException", "Table 'a\x1b[2Jb' was not found")
    assert str(failed).isprintable()


def test_a_cluster_that_wants_kerberos_is_told_apart():
    found = error("org.apache.hadoop.hbase.security.AccessDeniedException", "Authentication is required", do_not_retry=True)
    assert str(found).endswith("(the cluster is secured by Kerberos). Give its connection a principal and a keytab")


@pytest.mark.parametrize(
    "original",
    [
        errors.ConnectionFailed("h:1", "refused"),
        errors.ProtocolError("h:1", "garbage"),
        errors.RpcTimeout("h:1", "M", 1.5),
        errors.RequestTooLarge("M", 2, 1),
        errors.NotAuthenticated("h:1", "no ticket", retry_helps=False),
        errors.SaslRefused("h:1", "hbase/h@R", "javax.security.sasl.SaslException", "GSS initiate failed"),
        errors.NotSecured("h:1"),
        errors.WrongServerPrincipal("h:1", "other/h@R", ["hbase/h@R"]),
        errors.TableNotFound("h:1", "x.TableNotFoundException", "'t'", True, "trace"),
    ],
)
def test_errors_survive_pickling(original):
    copy = pickle.loads(pickle.dumps(original))
    assert type(copy) is type(original)
    assert str(copy) == str(original)
    assert vars(copy) == vars(original)


def test_errors_say_what_to_do_after_what_is_wrong():
    found = error("org.apache.hadoop.hbase.TableNotFoundException", "org.apache.hadoop.hbase.TableNotFoundException: 'ns:t1'")
    assert str(found).startswith("h:16020: table ns:t1 does not exist there. Create it there")
    assert str(found).endswith(found.advice)


@pytest.mark.parametrize(
    ("kind", "retry_helps"),
    [
        (errors.ConnectionFailed, True),
        (errors.RpcTimeout, True),
        (errors.ServerNotReady, True),
        (errors.ServerOverloaded, True),
        (errors.RequestTooLarge, False),
        (errors.AccessDenied, False),
        (errors.TableNotFound, False),
        (errors.ColumnFamilyNotFound, False),
        (errors.PeerNotFound, False),
    ],
)
def test_an_error_tells_whether_trying_again_can_help(kind, retry_helps):
    assert kind.retry_helps is retry_helps
