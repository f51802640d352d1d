"""Calls to the master about replication peers, tables and snapshots (MasterService in Master.proto, Replication.proto).

RegionServers cache a peer's state and do not watch its znodes, so these calls are the only way to change a peer. The master runs
a procedure for each change. The functions return once it is finished: then every live RegionServer knows the change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.base.security.login import UNSECURED, Login
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.names import ServerName, family_text, table_text
from walferry.hbase.rpc.connection import CALL_TIMEOUT_SECONDS, Connection
from walferry.hbase.rpc.errors import RemoteError, RpcTimeout

SERVICE = "MasterService"
PROCEDURE_TIMEOUT_SECONDS = 180.0
CREATE_TIMEOUT_SECONDS = 600.0  # a table may have thousands of regions, which the master assigns before it answers
SNAPSHOT_TIMEOUT_SECONDS = 600.0  # a snapshot includes a flush of all of a table's regions
CHANGES_OF_PEERS = ("AddPeerProcedure", "UpdatePeerConfigProcedure")
CLAIM = "ClaimReplicationQueuesProcedure"
MIGRATION = "MigrateReplicationQueueFromZkToTableProcedure"
MIGRATION_MOVED = 5  # its state MIGRATE_REPLICATION_QUEUE_FROM_ZK_TO_TABLE_WAIT_UPGRADING
_POLL_SECONDS = 0.1
_MAX_POLL_SECONDS = 2.0

M = TypeVar("M", bound=Message)


class ProcedureFailed(RemoteError):
    """The master accepted the call, but its procedure ended in an exception."""


def connect(master: ServerName, *, login: Login = UNSECURED, timeout: float = CALL_TIMEOUT_SECONDS) -> Connection:
    """Return a connection to the active master, to be used as a context manager. `timeout` limits each call, in seconds."""
    return Connection(master.host, master.port, SERVICE, login=login, call_timeout=timeout)


def list_peers(master: Connection) -> list[pb.ReplicationPeerDescription]:
    """List all peers with their states and configurations, as the master knows them. Raises an RpcError."""
    request = pb.ListReplicationPeersRequest()
    return list(master.call("ListReplicationPeers", request, pb.ListReplicationPeersResponse).peer_desc)


def is_changing_peers(master: Connection) -> bool:
    """Return whether the master has not finished adding a peer, or updating one's configuration. Raises an RpcError."""
    return bool(_unfinished(master, *CHANGES_OF_PEERS))


def _unfinished(master: Connection, *names: str) -> list[pb.Procedure]:
    """Return the unfinished procedures of these classes, named without their package."""
    over = (pb.Procedure.SUCCESS, pb.Procedure.FAILED, pb.Procedure.ROLLEDBACK)
    found = master.call("GetProcedures", pb.GetProceduresRequest(), pb.GetProceduresResponse).procedure
    return [each for each in found if each.state not in over and each.class_name.rpartition(".")[2] in names]


def get_peer(master: Connection, peer_id: str) -> pb.ReplicationPeer:
    """Get a peer's configuration. Raises PeerNotFound or another RpcError."""
    request = pb.GetReplicationPeerConfigRequest(peer_id=peer_id)
    return master.call("GetReplicationPeerConfig", request, pb.GetReplicationPeerConfigResponse).peer_config


def add_peer(master: Connection, peer_id: str, config: pb.ReplicationPeer, *, enabled: bool) -> None:
    """Add a peer. Raises RemoteError (the id exists or has a dash, the peer cluster's ZooKeeper does not answer, …) or
    RpcError."""
    state = pb.ReplicationState(state=pb.ReplicationState.ENABLED if enabled else pb.ReplicationState.DISABLED)
    request = pb.AddReplicationPeerRequest(peer_id=peer_id, peer_config=config, peer_state=state)
    _run(master, "AddReplicationPeer", peer_id, request, pb.AddReplicationPeerResponse)


def update_peer_config(master: Connection, peer_id: str, config: pb.ReplicationPeer) -> None:
    """Replace a peer's configuration by `config`, which must be complete: get it with `get_peer`, change it and pass it here.

    The master merges the entries of `configuration`, so none can be removed. Raises PeerNotFound or RpcError.
    """
    request = pb.UpdateReplicationPeerConfigRequest(peer_id=peer_id, peer_config=config)
    _run(master, "UpdateReplicationPeerConfig", peer_id, request, pb.UpdateReplicationPeerConfigResponse)


def enable_peer(master: Connection, peer_id: str) -> None:
    """Enable a peer, so that the RegionServers ship it. Raises PeerNotFound, or RemoteError if it is already enabled."""
    request = pb.EnableReplicationPeerRequest(peer_id=peer_id)
    _run(master, "EnableReplicationPeer", peer_id, request, pb.EnableReplicationPeerResponse)


def remove_peer(master: Connection, peer_id: str) -> None:
    """Remove a peer and all its queues. Raises PeerNotFound or RpcError."""
    request = pb.RemoveReplicationPeerRequest(peer_id=peer_id)
    _run(master, "RemoveReplicationPeer", peer_id, request, pb.RemoveReplicationPeerResponse)


def wait_procedure(master: Connection, what: str, proc_id: int, *, timeout: float = PROCEDURE_TIMEOUT_SECONDS) -> None:
    """Poll until procedure `proc_id`, `what` in errors, is finished. One that the master has forgotten counts as finished.

    Raises ProcedureFailed with the master's reason, RpcTimeout after `timeout` seconds (the procedure goes on), and RpcError.
    """
    request = pb.GetProcedureResultRequest(proc_id=proc_id)
    response = _polled(
        # Unlike the other calls, "getProcedureResult" begins with a small letter in Master.proto.
        lambda: master.call("getProcedureResult", request, pb.GetProcedureResultResponse),
        lambda answer: answer.state != pb.GetProcedureResultResponse.RUNNING,
        RpcTimeout(master.server, f"{what} (procedure {proc_id}, which goes on in the master)", timeout),
    )
    if response.HasField("exception"):
        failure = response.exception.generic_exception
        raise ProcedureFailed(master.server, failure.class_name, f"{what}: {failure.message}")


def _polled(ask: Callable[[], M], is_done: Callable[[M], bool], too_late: RpcTimeout) -> M:
    """Call `ask` until `is_done` accepts the answer, and return it. Raises `too_late` after its seconds."""
    give_up, pause = time.monotonic() + too_late.seconds, _POLL_SECONDS
    while not is_done(answer := ask()):
        if time.monotonic() + pause > give_up:
            raise too_late
        time.sleep(pause)
        pause = min(pause * 1.5, _MAX_POLL_SECONDS)
    return answer


def _run(
    master: Connection, method: str, what: str, request: Message, response_type: type[Message],
    timeout: float = PROCEDURE_TIMEOUT_SECONDS,
) -> None:  # fmt: skip
    """Make a call, and wait for the procedure that does its work."""
    response: Any = master.call(method, request, response_type)
    if response.HasField("proc_id"):  # HBase before 2.1 (for tables, HBase 1) did the work in the call itself
        wait_procedure(master, f"{method} {what}", response.proc_id, timeout=timeout)


def _unless(exception: str, call: Callable[[], object]) -> bool:
    """Make a call. Returns False if the server answers with this exception."""
    try:
        call()
    except RemoteError as error:
        if error.class_name.rpartition(".")[2] != exception:
            raise
        return False
    return True


def lacks_call(error: RemoteError, method: str) -> bool:
    """Return whether the master answered that it does not know the call `method`, because it is older than the call."""
    return f"UnsupportedOperationException: {method}" in f"{error.class_name}: {error.message}\n{error.stack_trace}"


def replicated_families(master: Connection, tables: Collection[str] | None = None) -> dict[str, dict[str, bool]]:
    """Return, for each existing table of `tables` ("table" or "namespace:table"), the families whose edits are replicated.

    Without `tables`, of all tables but HBase's own. With AccessController the user needs ADMIN or CREATE on the tables. Raises an
    RpcError.
    """
    return {name: _families(schema) for name, schema in table_schemas(master, tables).items()}


def families_in_wals(master: Connection) -> dict[str, list[bytes]]:
    """Return the replicated families of all tables but HBase's own, as WALs name them: a table without any has an empty list.

    Raises as `replicated_families`.
    """
    return {
        table: [from_binary_text(family) for family, is_replicated in families.items() if is_replicated]
        for table, families in replicated_families(master).items()
    }


def table_message(table: str) -> pb.TableName:
    """Return the message that names "table" or "namespace:table"."""
    namespace, _, name = table.rpartition(":")
    return pb.TableName(namespace=(namespace or "default").encode(), qualifier=name.encode())


def table_schemas(master: Connection, tables: Collection[str] | None = None) -> dict[str, pb.TableSchema]:
    """Get the schemas of `tables`, as far as they exist, or of all user tables. The schemas keep fields unknown to us.

    With AccessController the user needs ADMIN or CREATE on the tables. Raises an RpcError.
    """
    if tables is not None and not tables:
        return {}  # a request without names would ask for all tables
    names = [table_message(table) for table in tables or ()]
    request = pb.GetTableDescriptorsRequest(table_names=names, include_sys_tables=tables is not None)
    response = master.call("GetTableDescriptors", request, pb.GetTableDescriptorsResponse)
    return {table_text(schema.table_name): schema for schema in response.table_schema}


def create_table(master: Connection, schema: pb.TableSchema, split_keys: Sequence[bytes]) -> bool:
    """Create a table and wait until it is enabled. Returns False if it exists already. Raises an RpcError."""
    request, name = pb.CreateTableRequest(table_schema=schema, split_keys=split_keys), table_text(schema.table_name)
    make = partial(_run, master, "CreateTable", name, request, pb.CreateTableResponse, CREATE_TIMEOUT_SECONDS)
    return _unless("TableExistsException", make)


def create_namespace(master: Connection, namespace: str) -> bool:
    """Create a namespace. Returns False if it exists already. Raises an RpcError."""
    request = pb.CreateNamespaceRequest(namespaceDescriptor=pb.NamespaceDescriptor(name=namespace.encode()))
    make = partial(_run, master, "CreateNamespace", namespace, request, pb.CreateNamespaceResponse, CREATE_TIMEOUT_SECONDS)
    return _unless("NamespaceExistException", make)


def is_settling_queues(master: Connection) -> bool:
    """Return whether the master of HBase 3 may still make rows of queues, for a new peer or a dead server. Raises an RpcError."""
    return bool(_unfinished(master, *CHANGES_OF_PEERS, "ServerCrashProcedure", "AssignReplicationQueuesProcedure"))


def is_claiming_queues(master: Connection) -> bool:
    """Return whether the master has not finished the claim of a dead server's queues. Raises an RpcError."""
    return bool(_unfinished(master, CLAIM))


def has_moved_queues(master: Connection) -> bool:
    """Return whether no queue is on its way from ZooKeeper to table hbase:replication. Raises an RpcError.

    HBase 3's Master moves them when it starts on a cluster of HBase 2 (MigrateReplicationQueueFromZkToTableProcedure). Then it
    waits until all RegionServers run HBase 3, too, and only the table counts.
    """
    return all(_last_state(procedure) >= MIGRATION_MOVED for procedure in _unfinished(master, MIGRATION))


def _last_state(procedure: pb.Procedure) -> int:
    """Return the number of the last state of a StateMachineProcedure; 0 before the first."""
    for message in procedure.state_message:
        if message.type_url.rpartition(".")[2] == "StateMachineProcedureData":
            states = parse_message(pb.StateMachineProcedureData, message.value).state
            return states[-1] if states else 0
    return 0


def server_reports(master: Connection) -> dict[str, int]:
    """Return the time of each live RegionServer's last report to the master, in ms by its own clock. Raises an RpcError.

    The RegionServers report every hbase.regionserver.msginterval, by default 3 s.
    """
    request = pb.GetClusterStatusRequest(options=[pb.GetClusterStatusRequest.LIVE_SERVERS])
    live = master.call("GetClusterStatus", request, pb.GetClusterStatusResponse).cluster_status.live_servers
    return {
        f"{each.server.host_name},{each.server.port},{each.server.start_code}": each.server_load.report_end_time for each in live
    }


def has_namespace(master: Connection, namespace: str) -> bool:
    """Return whether the namespace exists. With AccessController the user needs ADMIN on it. Raises an RpcError."""
    request = pb.GetNamespaceDescriptorRequest(namespaceName=namespace)
    call = partial(master.call, "GetNamespaceDescriptor", request, pb.GetNamespaceDescriptorResponse)
    return _unless("NamespaceNotFoundException", call)


def _families(schema: pb.TableSchema) -> dict[str, bool]:
    """Return the families (`family_text`), each with whether its scope differs from 0, the default."""
    return {
        family_text(family.name): any(a.first == b"REPLICATION_SCOPE" and a.second != b"0" for a in family.attributes)
        for family in schema.column_families
    }


def take_snapshot(master: Connection, name: str, table: str, kept_seconds: int = 0) -> None:
    """Flush the table's regions, take a snapshot of it and wait until it is complete. The table may also be disabled.

    HBase 2.3 or later deletes the snapshot by itself after `kept_seconds`, unless that is 0 or its cleanup of snapshots is off.

    With AccessController the user needs ADMIN on the table. Raises an RpcError, such as the reason why the snapshot failed.
    """
    snapshot = pb.SnapshotDescription(name=name, table=table, type=pb.SnapshotDescription.FLUSH, ttl=kept_seconds)
    master.call("Snapshot", pb.SnapshotRequest(snapshot=snapshot), pb.SnapshotResponse)
    _polled(
        lambda: master.call("IsSnapshotDone", pb.IsSnapshotDoneRequest(snapshot=snapshot), pb.IsSnapshotDoneResponse),
        lambda answer: answer.done,
        RpcTimeout(master.server, f"the snapshot of table {table}", SNAPSHOT_TIMEOUT_SECONDS),
    )


def completed_snapshots(master: Connection) -> list[str]:
    """Return the names of all complete snapshots that the user may see: with AccessController, their own. Raises an RpcError."""
    response = master.call("GetCompletedSnapshots", pb.GetCompletedSnapshotsRequest(), pb.GetCompletedSnapshotsResponse)
    return [snapshot.name for snapshot in response.snapshots]


def delete_snapshot(master: Connection, name: str) -> None:
    """Delete a snapshot, which need not exist. Raises an RpcError."""
    request = pb.DeleteSnapshotRequest(snapshot=pb.SnapshotDescription(name=name))
    _unless("SnapshotDoesNotExistException", partial(master.call, "DeleteSnapshot", request, pb.DeleteSnapshotResponse))
