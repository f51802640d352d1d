"""Calls to the master about replication peers and tables (MasterService in Master.proto, Replication.proto).

RegionServers cache what they know about a peer and do not watch znodes, so these calls are the only way to change a peer. A
change is a procedure that the master runs. The functions return once it is finished, when every live RegionServer knows of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.hbase.names import family_text, table_text
from walferry.hbase.rpc.connection import CALL_TIMEOUT_SECONDS, Address, Connection
from walferry.hbase.rpc.errors import RemoteError, RpcTimeout

SERVICE = "MasterService"
PROCEDURE_TIMEOUT_SECONDS = 180.0
_POLL_SECONDS = 0.1
_MAX_POLL_SECONDS = 2.0


class ProcedureFailed(RemoteError):
    """The master accepted the call, but its procedure ended in an exception."""


def connect(master: Address, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS) -> Connection:
    """A connection to the active master, to be used as a context manager. `timeout` limits each call, in seconds."""
    return Connection(master.host, master.port, SERVICE, login=login, call_timeout=timeout)


def list_peers(master: Connection) -> list[pb.ReplicationPeerDescription]:
    """List all peers with their states and configurations, as the master knows them. Raises an RpcError."""
    request = pb.ListReplicationPeersRequest()
    return list(master.call("ListReplicationPeers", request, pb.ListReplicationPeersResponse).peer_desc)


def get_peer(master: Connection, peer_id: str) -> pb.ReplicationPeer:
    """Get a peer's configuration. Raises PeerNotFound or another RpcError."""
    request = pb.GetReplicationPeerConfigRequest(peer_id=peer_id)
    return master.call("GetReplicationPeerConfig", request, pb.GetReplicationPeerConfigResponse).peer_config


def add_peer(master: Connection, peer_id: str, config: pb.ReplicationPeer, *, enabled: bool) -> None:
    """Add a peer. Raises RemoteError (the id exists or has a dash, the slave's ZooKeeper does not answer, …) or RpcError."""
    state = pb.ReplicationState(state=pb.ReplicationState.ENABLED if enabled else pb.ReplicationState.DISABLED)
    request = pb.AddReplicationPeerRequest(peer_id=peer_id, peer_config=config, peer_state=state)
    response = master.call("AddReplicationPeer", request, pb.AddReplicationPeerResponse)
    _finish(master, f"AddReplicationPeer {peer_id}", response)


def update_peer_config(master: Connection, peer_id: str, config: pb.ReplicationPeer) -> None:
    """Replace a peer's configuration by `config`, which must be complete: get the configuration, change it, and pass it here.

    The master merges the entries of `configuration`, so none can be removed. Raises PeerNotFound or RpcError.
    """
    request = pb.UpdateReplicationPeerConfigRequest(peer_id=peer_id, peer_config=config)
    response = master.call("UpdateReplicationPeerConfig", request, pb.UpdateReplicationPeerConfigResponse)
    _finish(master, f"UpdateReplicationPeerConfig {peer_id}", response)


def enable_peer(master: Connection, peer_id: str) -> None:
    """Have the RegionServers ship a peer. Raises PeerNotFound, or RemoteError if it is already enabled."""
    request = pb.EnableReplicationPeerRequest(peer_id=peer_id)
    response = master.call("EnableReplicationPeer", request, pb.EnableReplicationPeerResponse)
    _finish(master, f"EnableReplicationPeer {peer_id}", response)


def disable_peer(master: Connection, peer_id: str) -> None:
    """Stop a peer's shipping. Its WALs are still queued. Raises PeerNotFound, or RemoteError if it is already disabled."""
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
    timeout: float = PROCEDURE_TIMEOUT_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Poll until procedure `proc_id` is finished. A procedure that the master has forgotten counts as finished.

    Raises ProcedureFailed with the master's reason, RpcTimeout after `timeout` seconds (the procedure goes on), RpcError.
    """
    give_up, pause = clock() + timeout, _POLL_SECONDS
    request = pb.GetProcedureResultRequest(proc_id=proc_id)
    while True:
        # Unlike the other calls, "getProcedureResult" begins with a small letter in Master.proto.
        response = master.call("getProcedureResult", request, pb.GetProcedureResultResponse)
        if response.state != pb.GetProcedureResultResponse.RUNNING:
            break
        if clock() + pause > give_up:
            raise RpcTimeout(master.server, f"{what} (procedure {proc_id}, which goes on in the master)", timeout)
        sleep(pause)
        pause = min(pause * 1.5, _MAX_POLL_SECONDS)
    if response.HasField("exception"):
        failure = response.exception.generic_exception
        raise ProcedureFailed(master.server, failure.class_name, f"{what}: {failure.message}")


def _finish(
    master: Connection,
    what: str,
    response: pb.AddReplicationPeerResponse
    | pb.UpdateReplicationPeerConfigResponse
    | pb.EnableReplicationPeerResponse
    | pb.DisableReplicationPeerResponse
    | pb.RemoveReplicationPeerResponse,
) -> None:
    if response.HasField("proc_id"):  # HBase before 2.1 did the work in the call itself
        wait_procedure(master, what, response.proc_id)


def lacks_call(error: RemoteError, method: str) -> bool:
    """Tell whether the master answered that it does not have the call `method`, because it is older than the call."""
    return f"UnsupportedOperationException: {method}" in f"{error.class_name}: {error.message}\n{error.stack_trace}"


def replicated_families(master: Connection, tables: Collection[str]) -> dict[str, dict[str, bool]]:
    """For each of the tables ("table" or "namespace:table") that exists, tell which families' edits are replicated.

    With AccessController the user needs ADMIN or CREATE on the tables. Raises an RpcError.
    """
    return _descriptors(master, tables) if tables else {}


def all_replicated_families(master: Connection) -> dict[str, dict[str, bool]]:
    """Tell the same for all tables but HBase's own."""
    return _descriptors(master, ())


def _descriptors(master: Connection, tables: Collection[str]) -> dict[str, dict[str, bool]]:
    """Ask for the descriptors of these tables, or, if there are none, of all but HBase's own."""
    request = pb.GetTableDescriptorsRequest(include_sys_tables=bool(tables))
    for table in tables:
        namespace, _, name = table.rpartition(":")
        request.table_names.add(namespace=(namespace or "default").encode(), qualifier=name.encode())
    response = master.call("GetTableDescriptors", request, pb.GetTableDescriptorsResponse)
    return {table_text(schema.table_name): _families(schema) for schema in response.table_schema}


def server_reports(master: Connection) -> dict[str, int]:
    """For each live RegionServer, tell when it made its last report to the master, in ms by its own clock. Raises an RpcError.

    The RegionServers report every hbase.regionserver.msginterval, by default 3 s.
    """
    request = pb.GetClusterStatusRequest(options=[pb.GetClusterStatusRequest.LIVE_SERVERS])
    live = master.call("GetClusterStatus", request, pb.GetClusterStatusResponse).cluster_status.live_servers
    return {
        f"{each.server.host_name},{each.server.port},{each.server.start_code}": each.server_load.report_end_time for each in live
    }


def has_namespace(master: Connection, namespace: str) -> bool:
    """Tell whether the namespace exists. With AccessController the user needs ADMIN on it. Raises an RpcError."""
    request = pb.GetNamespaceDescriptorRequest(namespaceName=namespace)
    try:
        master.call("GetNamespaceDescriptor", request, pb.GetNamespaceDescriptorResponse)
    except RemoteError as error:
        if error.class_name.rpartition(".")[2] != "NamespaceNotFoundException":
            raise
        return False
    return True


def _families(schema: pb.TableSchema) -> dict[str, bool]:
    """The families (`family_text`), each with whether its scope is not 0, which is also the default."""
    return {
        family_text(family.name): any(a.first == b"REPLICATION_SCOPE" and a.second != b"0" for a in family.attributes)
        for family in schema.column_families
    }
