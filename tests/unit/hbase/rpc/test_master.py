from types import SimpleNamespace

import pytest

from tests.unit.hbase.rpc.fake_server import FakeServer, answer, exception
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.rpc import master
from walferry.hbase.rpc.errors import PeerNotFound, RpcTimeout

CONFIG = pb.ReplicationPeer(clusterkey="zk:2181:/hbase", replicate_all=True)


def reply(message):
    return lambda request: answer(request, message.SerializeToString())


def procedure(state: str, **fields):
    return reply(pb.GetProcedureResultResponse(state=pb.GetProcedureResultResponse.State.Value(state), **fields))


def methods(server: FakeServer) -> list[str]:
    return [request.header.method_name for request in server.requests]


def test_adding_a_peer_returns_when_its_procedure_is_finished():
    added = reply(pb.AddReplicationPeerResponse(proc_id=42))
    with (
        FakeServer(added, procedure("RUNNING"), procedure("FINISHED")) as server,
        master.connect(server, login=Login(user="op")) as connection,
    ):
        master.add_peer(connection, "p1", CONFIG, enabled=False)
    assert methods(server) == ["AddReplicationPeer", "getProcedureResult", "getProcedureResult"]
    request = pb.AddReplicationPeerRequest.FromString(server.requests[0].param)
    assert (request.peer_id, request.peer_config) == ("p1", CONFIG)
    assert request.peer_state.state == pb.ReplicationState.DISABLED
    assert pb.GetProcedureResultRequest.FromString(server.requests[1].param).proc_id == 42
    assert server.requests[0].connection.service_name == "MasterService"
    assert server.requests[0].connection.user_info.effective_user == "op"


def test_a_peer_is_enabled_once_its_procedure_is_finished():
    enabled = reply(pb.EnableReplicationPeerResponse(proc_id=3))
    with FakeServer(enabled, procedure("FINISHED")) as server, master.connect(server) as connection:
        master.enable_peer(connection, "p1")
    assert methods(server) == ["EnableReplicationPeer", "getProcedureResult"]
    assert pb.EnableReplicationPeerRequest.FromString(server.requests[0].param).peer_id == "p1"


def test_a_master_without_procedures_is_not_polled():
    with FakeServer(reply(pb.RemoveReplicationPeerResponse())) as server, master.connect(server) as connection:
        master.remove_peer(connection, "p1")
    assert methods(server) == ["RemoveReplicationPeer"]


def test_a_procedure_that_failed_raises_the_masters_reason():
    reason = pb.ForeignExceptionMessage(
        generic_exception=pb.GenericExceptionMessage(
            class_name="org.apache.hadoop.hbase.DoNotRetryIOException", message="no such peer cluster"
        )
    )
    started = reply(pb.UpdateReplicationPeerConfigResponse(proc_id=1))
    expected = pytest.raises(
        master.ProcedureFailed, match="DoNotRetryIOException: UpdateReplicationPeerConfig p1: no such peer cluster"
    )
    with FakeServer(started, procedure("FINISHED", exception=reason)) as server, master.connect(server) as connection, expected:
        master.update_peer_config(connection, "p1", CONFIG)


def test_a_procedure_is_not_polled_for_ever(monkeypatch):
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(master, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    expected = pytest.raises(RpcTimeout, match=r"Disable p1 \(procedure 7, which goes on in the master\) took longer than 30")
    with FakeServer(procedure("RUNNING")) as server, master.connect(server) as connection, expected:
        master.wait_procedure(connection, "Disable p1", 7, timeout=30)
    assert 25 < now[0] <= 30


def test_a_procedure_that_the_master_has_forgotten_counts_as_finished():
    with FakeServer(procedure("NOT_FOUND")) as server, master.connect(server) as connection:
        master.wait_procedure(connection, "RemoveReplicationPeer p1", 7)
    assert methods(server) == ["getProcedureResult"]


def test_peers_come_back_with_state_and_configuration():
    peer = pb.ReplicationPeerDescription(id="p1", state=pb.ReplicationState(state=pb.ReplicationState.DISABLED), config=CONFIG)
    with FakeServer(reply(pb.ListReplicationPeersResponse(peer_desc=[peer]))) as server, master.connect(server) as connection:
        assert master.list_peers(connection) == [peer]


def test_a_missing_peer_has_an_error_of_its_own():
    missing = exception("org.apache.hadoop.hbase.ReplicationPeerNotFoundException", "p1", do_not_retry=True)
    with FakeServer(missing) as server, master.connect(server) as connection, pytest.raises(PeerNotFound):
        master.get_peer(connection, "p1")


NAMES = {b"f": "f", "été".encode(): "été", b"\xe9": r"\xe9", b"a\xff": r"a\xff"}


def test_families_have_texts_by_which_they_are_known_again_whatever_bytes_their_names_have():
    """HBase takes any bytes but a few. One such family must not end what looks at all tables."""
    schema = pb.TableSchema(table_name=pb.TableName(namespace=b"default", qualifier=b"t"))
    for name in NAMES:
        schema.column_families.add(name=name).attributes.add(first=b"REPLICATION_SCOPE", second=b"1")
    with FakeServer(reply(pb.GetTableDescriptorsResponse(table_schema=[schema]))) as server, master.connect(server) as connection:
        found = master.replicated_families(connection)
    assert found == {"t": dict.fromkeys(NAMES.values(), True)}
    assert [from_binary_text(name) for name in found["t"]] == list(NAMES)
