"""Reads the files in which HBase 2.6 keeps its peers if hbase.replication.peer.storage.impl is `filesystem`.

    <hbase.rootdir>/peers/<peer>/       a folder without a valid peer_config is not a peer       (FSReplicationPeerStorage)
        peer_config-0, peer_config-1    rotating: HBase writes over the older one, then deletes the other
        disabled                        empty; exists while the peer is DISABLED

    rotating  = int32 length (big-endian, 1 to 16 MiB) | RotateFileData | int32 CRC-32 of it     (RotateFile)
    data      = "PBUF" ReplicationPeer, in the RotateFileData with the larger timestamp

HBase skips a rotating file that ends too early: its writer was killed, or is still at work. Any other wrong byte makes HBase
fail. It deletes `disabled` to enable a peer, and creates it anew to disable the peer again. So its modification time identifies
one period of being DISABLED.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.hbase.errors import PeerFileError
from walferry.hbase.files.systems import READ_PATIENCE_SECONDS, exists, list_entries, open_wal

CONFIG_FILES = ("peer_config-0", "peer_config-1")
DISABLED_FILE = "disabled"
MAX_FILE_BYTES = 16 << 20  # FSReplicationPeerStorage.MAX_FILE_SIZE
TRIES = 5  # a try fails if HBase writes the configuration twice while it is read
_INT = 4
_LONG_SIGN = 1 << 63


@dataclass(frozen=True)
class PeerFiles:
    """A peer's files as they were read: the configuration's bytes, the period of being DISABLED, and files of unknown names."""

    folder: str  # URL
    config: bytes
    disabled_ms: int | None  # when it was disabled, by the file system's clock; None: ENABLED
    odd: tuple[str, ...]


def peer_folder(root: str, peer_id: str) -> str:
    """Return the URL of a peer's folder."""
    return f"{root}/{peer_id}"


def ids_in(root: str) -> list[str] | None:
    """List the folders that may be peers; None if there is no folder for peers. Raises StoreError."""
    found = sorted(entry.name for entry in list_entries(root) if entry.is_folder)
    return found if found or exists(root) else None


def disabled_since(root: str, peer_id: str) -> int | None:
    """Return the time in ms from which on the peer is DISABLED, by the file system's clock; None if it is not. Raises StoreError.

    Two periods never have the same time: between them HBase's Master carries out two procedures on all servers.
    """
    return _since(_entries(peer_folder(root, peer_id)))


def read_peer_files(root: str, peer_id: str) -> PeerFiles | None:
    """Read a peer's files; None if there is no such peer. Raises PeerFileError, StoreError."""
    folder = peer_folder(root, peer_id)
    for _ in range(TRIES):
        times = _entries(folder)
        if not any(name in times for name in CONFIG_FILES):
            return None
        read = [data for name in CONFIG_FILES if (data := _rotating(f"{folder}/{name}")) is not None]
        if read:
            newest = max(read, key=_time)  # of equal ones the first, as in HBase
            odd = tuple(sorted(set(times) - {*CONFIG_FILES, DISABLED_FILE}))
            return PeerFiles(folder, newest.data, _since(times), odd)
    return None  # no valid configuration, so HBase does not count it as a peer


def parse_rotating(data: bytes, url: str) -> pb.RotateFileData | None:
    """Parse a rotating file; None if it ends too early. HBase does not look at bytes after its end. Raises PeerFileError."""
    if len(data) < _INT:
        return None
    length = int.from_bytes(data[:_INT], "big", signed=True)
    if not 0 < length <= MAX_FILE_BYTES:
        raise PeerFileError(url, f"its length is {length}, which is not 1 to {MAX_FILE_BYTES:,}")
    body, end = data[_INT : _INT + length], data[_INT + length : _INT + length + _INT]
    if len(end) < _INT:
        return None
    if (found := zlib.crc32(body)) != (expected := int.from_bytes(end, "big")):
        raise PeerFileError(url, f"its CRC is {found:08x}, and not {expected:08x}")
    try:
        return parse_message(pb.RotateFileData, body)
    except DecodeError as error:
        raise PeerFileError(url, f"it is not a RotateFileData ({error})") from error


def _time(data: pb.RotateFileData) -> int:
    """Return the timestamp as HBase compares it, as a signed number."""
    return data.timestamp - 2 * (data.timestamp & _LONG_SIGN)


def _rotating(url: str) -> pb.RotateFileData | None:
    with suppress(FileNotFoundError), open_wal(url, patience=READ_PATIENCE_SECONDS) as file:
        return parse_rotating(file.read_at(0, min(file.size, MAX_FILE_BYTES + 2 * _INT)), url)
    return None


def _entries(folder: str) -> dict[str, float | None]:
    """Return the modification times of a folder's files, without those in which Hadoop keeps checksums on a local disk."""
    found = {entry.name: entry.modified for entry in list_entries(folder)}
    return {name: time for name, time in found.items() if not (name.startswith(".") and name.endswith(".crc"))}


def _since(times: dict[str, float | None]) -> int | None:
    return round((times[DISABLED_FILE] or 0.0) * 1000) if DISABLED_FILE in times else None
