"""Calls to the master about snapshots (MasterService in Master.proto)."""

from __future__ import annotations

import time
from collections.abc import Callable

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import RemoteError, RpcTimeout

SNAPSHOT_TIMEOUT_SECONDS = 600.0  # a flush of all of a table's regions is part of it
_POLL_SECONDS = 0.2
_MAX_POLL_SECONDS = 2.0


def take_snapshot(
    master: Connection,
    name: str,
    table: str,
    *,
    timeout: float = SNAPSHOT_TIMEOUT_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Flush the table's regions, take a snapshot of it and wait until it is complete. The table may also be disabled.

    With AccessController the user needs ADMIN on the table. Raises an RpcError, such as the reason why the snapshot failed.
    """
    snapshot = pb.SnapshotDescription(name=name, table=table, type=pb.SnapshotDescription.FLUSH)
    give_up, pause = clock() + timeout, _POLL_SECONDS
    master.call("Snapshot", pb.SnapshotRequest(snapshot=snapshot), pb.SnapshotResponse)
    done = pb.IsSnapshotDoneRequest(snapshot=snapshot)
    while not master.call("IsSnapshotDone", done, pb.IsSnapshotDoneResponse).done:
        if clock() + pause > give_up:
            raise RpcTimeout(master.server, f"the snapshot of table {table}", timeout)
        sleep(pause)
        pause = min(pause * 1.5, _MAX_POLL_SECONDS)


def completed_snapshots(master: Connection) -> list[str]:
    """Name all complete snapshots that the user may see: with AccessController their own. Raises an RpcError."""
    response = master.call("GetCompletedSnapshots", pb.GetCompletedSnapshotsRequest(), pb.GetCompletedSnapshotsResponse)
    return [snapshot.name for snapshot in response.snapshots]


def delete_snapshot(master: Connection, name: str) -> None:
    """Delete a snapshot; it is fine if there is none. Raises an RpcError."""
    request = pb.DeleteSnapshotRequest(snapshot=pb.SnapshotDescription(name=name))
    try:
        master.call("DeleteSnapshot", request, pb.DeleteSnapshotResponse)
    except RemoteError as error:
        if error.class_name.rpartition(".")[2] != "SnapshotDoesNotExistException":
            raise
