"""Queues of dead servers that never existed, made by hand: real edits in WAL files that a test may spoil as it likes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from embedded.client import JavaClient
from embedded.wire import Mutation, WalEntry, put
from tests.cluster.walferry_runs import positions
from walferry.base.zk.client import connected
from walferry.replication.source.cluster import SourceCluster

TRAILER = b"LAWP"
WAIT_SECONDS = 30


@dataclass(frozen=True)
class Recording:
    """The bytes of a closed WAL, in which each entry is one put to one row, and its entries as HBase's own reader finds them."""

    table: str
    content: bytes
    entries: tuple[WalEntry, ...]

    @property
    def puts(self) -> list[WalEntry]:
        return [entry for entry in self.entries if entry.table == self.table and entry.scopes]


def record(client: JavaClient, table: str, rows: int) -> Recording:
    """Put `rows` rows to family f of a table that is not flushed, each by its own call. Returns the WAL that contains them."""
    return record_edits(client, table, [put(f"row{i:04}", {"f:q": b"value%d" % i}) for i in range(rows)])


def record_edits(client: JavaClient, table: str, edits: Sequence[Mutation]) -> Recording:
    """Do the same as `record` with these edits. The last edit must not end like a trailer."""
    (server,) = client.region_servers()
    folder = Path(client.address.wal_root.removeprefix("file://")) / "WALs" / server
    client.roll_wals()
    wal = max((f for f in folder.iterdir() if not f.name.endswith(".meta")), key=lambda f: int(f.name.rpartition(".")[2]))
    client.write(table, edits, one_by_one=True)
    client.roll_wals()
    give_up = time.monotonic() + WAIT_SECONDS
    while not (content := wal.read_bytes()).endswith(TRAILER):
        assert time.monotonic() < give_up, f"{wal} is not closed"
        time.sleep(0.05)
    return Recording(table, content, tuple(client.read_wal(f"file://{wal}")))


class DeadQueue:
    """A dead server's queue of a peer, as it lies under a live server that claimed it."""

    def __init__(self, source: SourceCluster, client: JavaClient, peer_id: str) -> None:
        self._source = source
        self._peer_id = peer_id
        self.server = f"dead{secrets.token_hex(4)},16020,1700000000000"
        self.group = quote(self.server, safe="")
        self.path = f"{source.znode_parent}/replication/rs/{client.region_servers()[0]}/{peer_id}-{self.server}"
        self._archive = Path(source.wal_root.removeprefix("file://")) / "oldWALs"
        self._added = 0

    def add(self, content: bytes | None, position: bytes = b"") -> Path:
        """Queue one more archived WAL with this content (None: no such file), at `position` as ZooKeeper stores it."""
        self._added += 1
        name = f"{self.group}.{1700000000000 + self._added}"
        with connected(self._source.quorum) as zk:
            zk.create(f"{self.path}/{name}", position, makepath=True)  # before the file: HBase deletes unqueued WALs
        if content is not None:
            (self._archive / name).write_bytes(content)
        return self._archive / name

    def set_position(self, wal: Path, value: bytes) -> None:
        with connected(self._source.quorum) as zk:
            zk.set(f"{self.path}/{wal.name}", value)

    def give_up(self, wal: Path) -> None:
        """Take a WAL out of the queue, as an operator does who accepts the loss of its edits."""
        with connected(self._source.quorum) as zk:
            zk.delete(f"{self.path}/{wal.name}")

    def positions(self) -> dict[str, int]:
        """Return WAL name → position, for this server's WALs that are still queued."""
        return {wal: at for wal, at in positions(self._source, self._peer_id).items() if wal.startswith(f"{self.group}.")}
