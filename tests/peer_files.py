"""Peers in files. Every write does what HBase's FSReplicationPeerStorage and RotateFile do, on a local folder."""

from __future__ import annotations

import shutil
import struct
import time
import zlib
from pathlib import Path

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.peer_files import CONFIG_FILES, DISABLED_FILE, parse_rotating
from walferry.hbase.values import PBUF


def rotating(data: bytes, timestamp: int) -> bytes:
    """RotateFile.write."""
    body = pb.RotateFileData(timestamp=timestamp, data=data).SerializeToString()
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


class PeerFolders:
    """The folder `peers` below hbase.rootdir."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def url(self) -> str:
        return f"file://{self.root}"

    def add_peer(self, peer_id: str, state: str = "DISABLED", config: dict[str, str] | None = None, **fields: object) -> None:
        (self.root / peer_id).mkdir(parents=True)
        self.set_state(peer_id, state)
        self.set_config(peer_id, config, **fields)

    def set_config(self, peer_id: str, config: dict[str, str] | None = None, **fields: object) -> None:
        """Write the older of both files, then delete the other one."""
        message = pb.ReplicationPeer(**{"clusterkey": "127.0.0.1:2181:/peer_cluster", "replicate_all": True, **fields})
        for name, value in ({"walferry.managed": "true"} if config is None else config).items():
            message.configuration.add(name=name, value=value)
        self.put_config(peer_id, message)

    def put_config(self, peer_id: str, message: pb.ReplicationPeer) -> None:
        now, other = (self.root / peer_id / name for name in self._in_turn(peer_id))
        now.write_bytes(rotating(PBUF + message.SerializeToString(), self._next_timestamp(peer_id)))
        other.unlink(missing_ok=True)

    def config_file(self, peer_id: str) -> Path:
        """The file with the present configuration."""
        return next(path for name in CONFIG_FILES if (path := self.root / peer_id / name).exists())

    def set_state(self, peer_id: str, state: str) -> None:
        path = self.root / peer_id / DISABLED_FILE
        if state == "ENABLED":
            path.unlink(missing_ok=True)
        elif not path.exists():
            time.sleep(0.002)  # two periods never begin in the same millisecond: the Master carries out two procedures
            path.touch()

    def remove_peer(self, peer_id: str) -> None:
        self.config_file(peer_id).unlink()
        shutil.rmtree(self.root / peer_id)

    def _in_turn(self, peer_id: str) -> tuple[str, str]:
        first, second = CONFIG_FILES
        return (second, first) if (self.root / peer_id / first).exists() else (first, second)

    def _next_timestamp(self, peer_id: str) -> int:
        there = [path for name in CONFIG_FILES if (path := self.root / peer_id / name).exists()]
        before = [data.timestamp for path in there if (data := parse_rotating(path.read_bytes(), path.name)) is not None]
        return max([time.time_ns() // 1_000_000, *(each + 1 for each in before)])
