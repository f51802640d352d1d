"""Decodes and encodes the values of HBase's znodes.

    value    = [ prefix ] body
    prefix   = 0xFF | int32 length (big-endian) | `length` bytes: process id and an 8-byte salt   (ZKMetadata.java)
    body     = "PBUF" protobuf message                                                          (ProtobufMagic.java)
    position = empty | "PBUF" ReplicationHLogPosition | int64 big-endian (written before 0.95)  (ZKUtil.parseWALPositionFrom)
    hbaseid  = "PBUF" ClusterId | text (written before 0.95)                                    (ClusterId.parseFrom)
    peer     = "PBUF" ReplicationPeer | cluster key as text (written before 0.95)   (ReplicationPeerConfigUtil.parsePeerFrom)
    state    = "PBUF" ReplicationState
    sync     = "PBUF" SyncReplicationState                             (ZKReplicationPeerStorage, since 3.0)
    tableCFs = text                                                       (ReplicationPeersZKImpl.addPeer, up to 1.3)
    master   = "PBUF" Master
    server   = "PBUF" RegionServerInfo
    meta     = "PBUF" MetaRegionServer
    labels   = empty | "PBUF" VisibilityLabelsRequest                      (VisibilityUtils.getDataToWriteToZooKeeper)
    region   = "PBUF" RegionTransition                                 (RegionTransition.toByteArray, up to 1.x)
    table    = "PBUF" Table                                              (ZKTableStateManager.setTableStateInZK, up to 1.x)
    task     = "PBUF" SplitLogTask                                                        (SplitLogTask.toByteArray, up to 1.x)
    lock     = "PBUF" ReplicationLock                        (ReplicationQueuesZKImpl.lockToByteArray, up to 1.x)

HBase's own client writes the prefix before every non-empty value. All readers, HBase's too, accept values without it.
"""

import uuid
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.errors import PositionError
from walferry.hbase.names import ServerName

PREFIX_MAGIC = 0xFF
PBUF = b"PBUF"
LONG_MAX = (1 << 63) - 1
_CHECK_PATH = (
    "Check that the connection's znode_parent is the cluster's zookeeper.znode.parent, and that it runs HBase 0.96 or newer: "
    "older ones are not supported"
)

M = TypeVar("M", bound=Message)


def strip_client_prefix(value: bytes, znode: str) -> bytes:
    """Return the value without the prefix of HBase's ZooKeeper client, if it has one.

    Raises ZNodeValueError if the prefix claims to be longer than the value.
    """
    if not value or value[0] != PREFIX_MAGIC:
        return value
    length = int.from_bytes(value[1:5], "big", signed=True)
    if len(value) < 5 or not 0 <= length <= len(value) - 5:
        raise ZNodeValueError(znode, f"its client prefix claims {length} bytes of {len(value)}", _CHECK_PATH)
    return value[5 + length :]


def decode_message(kind: type[M], value: bytes, znode: str) -> M:
    """Decode a znode's message of this kind. Raises ZNodeValueError."""
    return _message(strip_client_prefix(value, znode), kind, znode)


def _message(body: bytes, kind: type[M], znode: str) -> M:
    if not body.startswith(PBUF):
        raise ZNodeValueError(znode, f"{_shown(body)} does not begin with PBUF", _CHECK_PATH)
    try:
        return parse_message(kind, body[len(PBUF) :])
    except DecodeError as error:
        raise ZNodeValueError(znode, f"{_shown(body)} is not a {kind.DESCRIPTOR.name} ({error})", _CHECK_PATH) from error


def _shown(body: bytes) -> str:
    return repr(body[:64]) + ("…" if len(body) > 64 else "")


def decode_position(value: bytes, znode: str) -> int:
    """Read the offset in the WAL just after the last shipped entry; 0 means before the first entry. Raises PositionError."""
    try:
        body = strip_client_prefix(value, znode)
        message = _message(body, pb.ReplicationHLogPosition, znode) if body.startswith(PBUF) else None
    except ZNodeValueError as error:
        raise PositionError(znode, error.reason) from error
    if message is None and len(body) not in (0, 8):
        raise PositionError(znode, f"its value {_shown(body)} is not a position")
    position = int.from_bytes(body, "big", signed=True) if message is None else message.position
    if position < 0:
        raise PositionError(znode, f"its position {position} is negative")
    return position


def encode_position(position: int) -> bytes:
    """Encode `position` as HBase does (ZKUtil.positionToByteArray), without its client's prefix."""
    if not 0 <= position <= LONG_MAX:
        raise ValueError(f"a WAL position lies between 0 and 2^63-1, not {position}")
    return PBUF + pb.ReplicationHLogPosition(position=position).SerializeToString()


def decode_peer(value: bytes, znode: str) -> pb.ReplicationPeer:
    """Read a peer's configuration. Raises ZNodeValueError."""
    body = strip_client_prefix(value, znode)
    if body and not body.startswith(PBUF):
        try:
            return pb.ReplicationPeer(clusterkey=body.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ZNodeValueError(znode, f"{_shown(body)} is not a peer configuration", _CHECK_PATH) from error
    return _message(body, pb.ReplicationPeer, znode)


def decode_table_cfs(value: bytes, znode: str) -> str:
    """Read a peer's tables as HBase up to 1.3 writes them, as text. Raises ZNodeValueError."""
    try:
        return strip_client_prefix(value, znode).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ZNodeValueError(znode, f"{_shown(value)} is not a list of tables", "Correct the peer") from error


def decode_state(value: bytes, znode: str) -> str:
    """Read a peer's state: ENABLED or DISABLED. Raises ZNodeValueError."""
    return pb.ReplicationState.State.Name(decode_message(pb.ReplicationState, value, znode).state)


def is_synchronous(value: bytes, znode: str) -> bool:
    """Return whether the state of synchronous replication is another one than NONE. Raises ZNodeValueError."""
    return bool(value) and decode_message(pb.SyncReplicationState, value, znode).state != pb.SyncReplicationState.NONE


def server_in(name: pb.ServerName, znode: str) -> ServerName:
    """Return the server that a znode's message names, with the host's capitals. Raises ZNodeValueError."""
    try:
        return ServerName.parse(f"{name.host_name},{name.port},{name.start_code}")
    except ValueError as error:
        raise ZNodeValueError(znode, str(error), _CHECK_PATH) from error


def decode_cluster_id(value: bytes, znode: str) -> uuid.UUID:
    """Read the cluster's id. Raises ZNodeValueError."""
    body = strip_client_prefix(value, znode)
    try:
        text = _message(body, pb.ClusterId, znode).cluster_id if body.startswith(PBUF) else body.decode("ascii")
        return uuid.UUID(text)
    except ValueError as error:
        raise ZNodeValueError(znode, f"{_shown(body)} is not a cluster id", _CHECK_PATH) from error


def encode_cluster_id(cluster_id: uuid.UUID) -> bytes:
    """Return a cluster's id as HBase writes it."""
    return PBUF + pb.ClusterId(cluster_id=str(cluster_id)).SerializeToString()


def decode_server_version(value: bytes, znode: str) -> str | None:
    """Read the HBase version of a live RegionServer, or None if the server does not publish it. Raises ZNodeValueError."""
    return _server_info(value, znode).version_info.version or None


def decode_info_port(value: bytes, znode: str) -> int | None:
    """Read the port of a live RegionServer's web pages, or None if the server has none. Raises ZNodeValueError."""
    port = _server_info(value, znode).infoPort
    return port if 0 < port < 1 << 16 else None


def _server_info(value: bytes, znode: str) -> pb.RegionServerInfo:
    body = strip_client_prefix(value, znode)
    return _message(body, pb.RegionServerInfo, znode) if body else pb.RegionServerInfo()


def decode_labels(value: bytes, znode: str) -> dict[int, bytes]:
    """Read the visibility labels by ordinal. Raises ZNodeValueError."""
    body = strip_client_prefix(value, znode)
    labels = _message(body, pb.VisibilityLabelsRequest, znode).visLabel if body else ()
    return {label.ordinal: label.label for label in labels}


def decode_lock(value: bytes, znode: str) -> str:
    """Read the owner of the lock on a dead server's queues: in HBase, the znode of the owner's queues. Raises ZNodeValueError."""
    return decode_message(pb.ReplicationLock, value, znode).lock_owner


def encode_lock(owner: str) -> bytes:
    """Encode the lock's value as HBase 1.x does, without its client's prefix."""
    return PBUF + pb.ReplicationLock(lock_owner=owner).SerializeToString()
