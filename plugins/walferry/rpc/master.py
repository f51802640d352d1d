"""The master's calls about replication peers (MasterService in Master.proto, Replication.proto).

RegionServers cache what they know of a peer and watch no znode: a peer is changed through these calls only. A change is a
procedure that the master runs; the functions return when it is finished, so when every live RegionServer has taken note.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from walferry.protos import hbase_pb2 as pb
from walferry.rpc.connection import CALL_TIMEOUT_S, Address, Connection
from walferry.rpc.errors import RemoteError, RpcTimeout

SERVICE = "MasterService"
PROCEDURE_TIMEOUT_S = 180.0
_POLL_S = 0.1
_MAX_POLL_S = 2.0


class ProcedureFailed(RemoteError):
    """The master took the call, but the procedure that was to do it ended in an exception."""


def connect(master: Address, *, user: str | None = None, timeout: float = CALL_TIMEOUT_S) -> Connection:
    """A connection to the active master, to be used as a context manager. `timeout` bounds each call, in seconds."""
    return Connection(master.host, master.port, SERVICE, user=user, call_timeout=timeout)


def list_peers(master: Connection) -> list[pb.ReplicationPeerDescription]:
    """All peers with their states and configurations, as the master knows them. Raises an RpcError."""
    request = pb.ListReplicationPeersRequest()
    return list(master.call("ListReplicationPeers", request, pb.ListReplicationPeersResponse).peer_desc)


def get_peer(master: Connection, peer_id: str) -> pb.ReplicationPeer:
    """A peer's configuration. Raises PeerNotFound or another RpcError."""
    request = pb.GetReplicationPeerConfigRequest(peer_id=peer_id)
    return master.call("GetReplicationPeerConfig", request, pb.GetReplicationPeerConfigResponse).peer_config


def add_peer(master: Connection, peer_id: str, config: pb.ReplicationPeer, *, enabled: bool) -> None:
    """Add a peer. Raises RemoteError (the id exists or has a dash, the slave's ZooKeeper does not answer, …) or RpcError."""
    state = pb.ReplicationState(state=pb.ReplicationState.ENABLED if enabled else pb.ReplicationState.DISABLED)
    request = pb.AddReplicationPeerRequest(peer_id=peer_id, peer_config=config, peer_state=state)
    response = master.call("AddReplicationPeer", request, pb.AddReplicationPeerResponse)
    _finish(master, f"AddReplicationPeer {peer_id}", response)


def update_peer_config(master: Connection, peer_id: str, config: pb.ReplicationPeer) -> None:
    """Replace a peer's configuration by `config`, which must be whole: read it, change it, give it back.

    Entries of `configuration` are merged by the master, so none can be taken away. Raises PeerNotFound or RpcError.
    """
    request = pb.UpdateReplicationPeerConfigRequest(peer_id=peer_id, peer_config=config)
    response = master.call("UpdateReplicationPeerConfig", request, pb.UpdateReplicationPeerConfigResponse)
    _finish(master, f"UpdateReplicationPeerConfig {peer_id}", response)


def disable_peer(master: Connection, peer_id: str) -> None:
    """Stop a peer's shipping; its WALs go on being queued. Raises PeerNotFound, RemoteError if it is disabled already."""
    request = pb.DisableReplicationPeerRequest(peer_id=peer_id)
    response = master.call("DisableReplicationPeer", request, pb.DisableReplicationPeerResponse)
    _finish(master, f"DisableReplicationPeer {peer_id}", response)


def remove_peer(master: Connection, peer_id: str) -> None:
    """Remove a peer and all its queues. Raises PeerNotFound or RpcError."""
    request = pb.RemoveReplicationPeerRequest(peer_id=peer_id)
    response = master.call("RemoveReplicationPeer", request, pb.RemoveReplicationPeerResponse)
    _finish(master, f"RemoveReplicationPeer {peer_id}", response)


def wait_procedure(
    master: Connection,
    what: str,
    proc_id: int,
    *,
    timeout: float = PROCEDURE_TIMEOUT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Poll until procedure `proc_id` is finished; one that the master has forgotten is taken for finished.

    Raises ProcedureFailed with the master's reason, RpcTimeout after `timeout` seconds (the procedure goes on), RpcError.
    """
    give_up, pause = clock() + timeout, _POLL_S
    request = pb.GetProcedureResultRequest(proc_id=proc_id)
    while True:
        # "getProcedureResult" begins with a small letter in Master.proto, unlike all others here
        response = master.call("getProcedureResult", request, pb.GetProcedureResultResponse)
        if response.state != pb.GetProcedureResultResponse.RUNNING:
            break
        if clock() + pause > give_up:
            raise RpcTimeout(master.server, f"{what} (procedure {proc_id}, which goes on in the master)", timeout)
        sleep(pause)
        pause = min(pause * 1.5, _MAX_POLL_S)
    if response.HasField("exception"):
        failure = response.exception.generic_exception
        raise ProcedureFailed(master.server, failure.class_name, f"{what}: {failure.message}")


def _finish(
    master: Connection,
    what: str,
    response: pb.AddReplicationPeerResponse
    | pb.UpdateReplicationPeerConfigResponse
    | pb.DisableReplicationPeerResponse
    | pb.RemoveReplicationPeerResponse,
) -> None:
    if response.HasField("proc_id"):  # HBase before 2.1 did it in the call itself
        wait_procedure(master, what, response.proc_id)


def lacks_call(error: RemoteError, method: str) -> bool:
    """Whether the master answered that it has no call `method`: it is older than the call."""
    return f"UnsupportedOperationException: {method}" in f"{error.class_name}: {error.message}\n{error.stack_trace}"


def replicated_families(master: Connection, tables: Collection[str]) -> dict[str, dict[str, bool]]:
    """Of those of the tables ("table" or "namespace:table") that exist: each family, and whether its edits are replicated.

    With AccessController the user needs ADMIN or CREATE on the tables. Raises an RpcError.
    """
    if not tables:
        return {}  # a request without names is one for all tables
    request = pb.GetTableDescriptorsRequest(include_sys_tables=True)
    for table in tables:
        namespace, _, name = table.rpartition(":")
        request.table_names.add(namespace=(namespace or "default").encode(), qualifier=name.encode())
    response = master.call("GetTableDescriptors", request, pb.GetTableDescriptorsResponse)
    return {_name(schema.table_name): _families(schema) for schema in response.table_schema}


def has_namespace(master: Connection, namespace: str) -> bool:
    """Whether the namespace exists. With AccessController the user needs ADMIN on it. Raises an RpcError."""
    request = pb.GetNamespaceDescriptorRequest(namespaceName=namespace)
    try:
        master.call("GetNamespaceDescriptor", request, pb.GetNamespaceDescriptorResponse)
    except RemoteError as e:
        if e.class_name.rpartition(".")[2] != "NamespaceNotFoundException":
            raise
        return False
    return True


def _name(table: pb.TableName) -> str:
    namespace, name = table.namespace.decode(), table.qualifier.decode()
    return name if namespace in ("", "default") else f"{namespace}:{name}"


def _families(schema: pb.TableSchema) -> dict[str, bool]:
    """A family without a scope has the default one, 0."""
    return {
        family.name.decode(): any(a.first == b"REPLICATION_SCOPE" and a.second != b"0" for a in family.attributes)
        for family in schema.column_families
    }
