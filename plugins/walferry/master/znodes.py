"""Reads and writes the znode of a region in transition.

    <base>/region-in-transition/<encoded name>
    value = [ prefix ] "PBUF" RegionTransition{ 1 event_type_code, 2 region_name, 3 create_time, 4 server_name, 5 payload }

The prefix comes from HBase's ZooKeeper client (`hbase.values`). Values are written without it: all readers accept that. The
`create_time` is the writer's clock at its transition, so an age is taken from ZooKeeper's own time (`mtime`) instead.

Source: HBase's ZKAssign, RegionTransition (branch-1.4), ZooKeeper.proto.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from kazoo.client import KazooClient

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import one_line
from walferry.base.zk.client import ZNode, read, read_children
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.values import PBUF, decode_message
from walferry.master.states import RegionState

MAX_REGION_NAME_BYTES = 64 * 1024 + 1024  # a row key has at most 32,767 bytes, and so has a table's name with its namespace
MAX_PROBLEM_CHARS = 500
META_ENCODED_NAME = "1588230740"
_ENCODED_NAME = re.compile(r"[0-9a-f]{32}|[0-9]{1,10}")

T = TypeVar("T")
Readings: TypeAlias = tuple[dict[str, T], dict[str, ZNodeValueError]]


@dataclass(frozen=True)
class RegionInTransition:
    """The contents of a region's znode, and its version. `server` is the server that acts next, or acted last.

    `created_ms` and `changed_ms` are by ZooKeeper's clock; a change that was just made has our time. `created_zxid` is the
    transaction that created the znode.
    """

    name: bytes
    state: RegionState
    server: ServerName
    version: int
    changed_ms: int
    ephemeral: bool
    payload: bytes
    created_ms: int = 0
    created_zxid: int = 0

    @property
    def encoded_name(self) -> str:
        """The name of the region's znode and folder."""
        return encoded_name(self.name)


def encoded_name(name: bytes) -> str:
    """Take the encoded name out of a region's full name. hbase:meta's full name contains none: its encoded name is a constant."""
    if name.startswith(b"hbase:meta,,1") and not name.endswith(b"."):
        return META_ENCODED_NAME
    return name.rstrip(b".").rpartition(b".")[2].decode("ascii", "replace")


def is_encoded_name(text: str) -> bool:
    """Return whether the text can be a region's encoded name, and so a part of paths."""
    return _ENCODED_NAME.fullmatch(text) is not None


def read_region(zk: KazooClient, nodes: ZNodes, encoded: str) -> RegionInTransition | None:
    """Read the znode of one region; None if the region is not in transition. Raises ZNodeValueError."""
    path = nodes.region_in_transition(encoded)
    found = read(zk, path)
    return None if found is None else decode_region(found, path)


def read_regions(zk: KazooClient, nodes: ZNodes) -> Readings[RegionInTransition]:
    """Read the znodes of all regions in transition, by encoded name. A region that cannot be read must wait for its repair."""
    return decoded(read_children(zk, nodes.in_transition), nodes.in_transition, decode_region)


def decoded(znodes: Mapping[str, ZNode], folder: str, decode: Callable[[ZNode, str], T]) -> Readings[T]:
    """Decode the znodes in a folder, by name, each with `decode(znode, path)`. Returns the errors apart, by name too."""
    found, broken = {}, {}
    for name, znode in znodes.items():
        try:
            found[name] = decode(znode, f"{folder}/{name}")
        except ZNodeValueError as error:
            broken[name] = error
    return found, broken


def decode_region(found: ZNode, path: str) -> RegionInTransition:
    """Decode a znode's value. Raises ZNodeValueError, also if the znode belongs to another region."""
    try:
        message = decode_message(pb.RegionTransition, found.value, path)
    except ZNodeValueError as error:
        raise _wrong(path, error.reason) from error
    try:
        state = RegionState(message.event_type_code)
    except ValueError:
        raise _wrong(path, f"its state {message.event_type_code} is unknown") from None
    encoded = path.rpartition("/")[2]
    if len(message.region_name) > MAX_REGION_NAME_BYTES or not is_encoded_name(encoded):
        raise _wrong(path, "its name is not that of a region")
    if encoded_name(message.region_name) != encoded:
        raise _wrong(path, f"it tells of another region, {message.region_name[:200]!r}")
    server = message.server_name
    try:
        name = ServerName.in_message(server.host_name, server.port, server.start_code)
    except ValueError as error:
        raise _wrong(path, str(error)) from error
    stat, ephemeral = found.stat, found.stat.ephemeralOwner != 0
    return RegionInTransition(
        message.region_name, state, name, stat.version, stat.mtime, ephemeral, message.payload, stat.ctime, stat.czxid
    )


def encode_region(name: bytes, state: RegionState, server: ServerName, payload: bytes = b"") -> bytes:
    """Encode the value of a region's znode."""
    message = pb.RegionTransition(
        event_type_code=state,
        region_name=name,
        create_time=int(time.time() * 1000),
        server_name=pb.ServerName(host_name=server.host, port=server.port, start_code=server.start_code),
    )
    if payload:
        message.payload = payload
    return PBUF + message.SerializeToString()


def _wrong(path: str, problem: str) -> ZNodeValueError:
    return ZNodeValueError(
        path,
        one_line(problem, MAX_PROBLEM_CHARS),
        "Nothing is done for this region. If its table is not being split or merged now, look with `walferry regions "
        "explain` at where it is served, and delete the znode while no master is running",
    )
