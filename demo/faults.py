"""What can be broken in the running demo, and mended again. Each returns what it did, what to look at, and how to undo it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from demo import edits, outcome
from demo.commands import as_json, walferry
from demo.control import Action, FaultError
from demo.site import Site
from embedded import wire
from embedded.client import GLOBAL, JavaClient
from walferry.hbase.values import encode_position
from walferry.replication.queues.finding import find_wal
from walferry.replication.source.connection import from_text
from walferry.replication.source.session import open_session

DROPPED = "returns"  # the table that the peer cluster loses
FORGOTTEN = "forgotten"  # the peer that nobody ships
ROWS = 3000  # written before something breaks
BEYOND = 1 << 40  # a byte that no WAL has
BROKEN_BYTES = 1024  # more than a cell, so that the length of one is among them
SLOW = 100_000  # bytes a second that the peer may ship while it falls behind
LOAD_ROWS, LOAD_VALUE_BYTES, LOAD_PAUSE_SECONDS = 1000, 1000, 0.5
LOAD_ROUNDS = 300  # 300 MB: a demo that is forgotten does not fill the disk
ARCHIVED_SECONDS = 20.0


@dataclass(frozen=True)
class Damage:
    """Where a WAL is broken, and what was there."""

    wal: str
    at: int
    was: bytes


class Faults:
    """The faults of one demo. `ask` calls them one after the other."""

    def __init__(self, site: Site, source: JavaClient, peer_cluster: JavaClient, peer: str, page: str) -> None:
        self._site, self._source, self._peer_cluster, self._peer, self._page = site, source, peer_cluster, peer, page
        self._rows = 0
        self._damage: Damage | None = None
        self._spoilt: str | None = None  # the WAL whose position is wrong
        self._load: threading.Thread | None = None
        self._stop_load = threading.Event()

    def actions(self) -> dict[str, Action]:
        """All that scripts can ask for, by name."""
        both: dict[str, tuple[Action, Action]] = {
            "kill_server": (self._kill_server, self._start_server),
            "stop_peer_cluster": (self._stop_peer_cluster, self._start_peer_cluster),
            "break_wal": (self._break_wal, self._mend_wal),
            "spoil_position": (self._spoil_position, self._set_position),
            "fall_behind": (self._fall_behind, self._catch_up),
            "drop_table": (self._drop_table, self._make_table),
            "forget_peer": (self._forget_peer, self._remove_forgotten),
        }
        undone = {f"{name} --undo": undo for name, (_, undo) in both.items()}
        return {name: do for name, (do, _) in both.items()} | undone | {"compare": self._compare, "write": self._write_more}

    def _kill_server(self) -> list[str]:
        if len(self._site.source.regionservers) < 2:
            raise FaultError("only one RegionServer is left: add one with `python -m demo.kill_server --undo` first")
        self._write()
        server = self._site.source.kill_regionserver(0)
        return [
            f"Killed RegionServer {server.server_name} of the source (kill -9), with edits in its WAL that are not shipped.",
            *self._look("a dead server, and its queue", "queues"),
            "Run      the next run of replicate_peer ships the queue, or one of drain_recovered_queue, or `walferry failover`",
            *_runbook("recovered-queue", "kill_server", "adds a RegionServer"),
        ]

    def _start_server(self) -> list[str]:
        server = self._site.source.start_regionserver()
        return [f"RegionServer {server.server_name} serves; the source has {len(self._site.source.regionservers)}."]

    def _stop_peer_cluster(self) -> list[str]:
        self._site.peer_cluster.kill()
        self._write()
        self._source.roll_wals()  # then there is something that waits
        return [
            f"Killed the peer cluster, its ZooKeeper too (kill -9), and wrote {ROWS:,} rows to the source.",
            *self._look("the peer cluster cannot be reached, and the lag grows", "status"),
            "Run      the next run of replicate_peer fails within seconds, and its report says why",
            *_runbook("peer-cluster-down", "stop_peer_cluster", "starts the peer cluster again"),
        ]

    def _start_peer_cluster(self) -> list[str]:
        if self._site.peer_cluster.process.alive:
            return ["The peer cluster runs."]
        self._site.peer_cluster.start()
        return ["The peer cluster runs again, with its data. The next batch ships what has waited."]

    def _break_wal(self) -> list[str]:
        if self._damage is not None:
            raise FaultError(f"WAL {self._damage.wal} is broken already: `python -m demo.break_wal --undo` mends it")
        if not self._site.source.address.wal_root.startswith("file:"):
            raise FaultError("the WALs of the secured demo lie on HDFS, where this script does not reach")
        self._ship()
        self._write()
        for table in edits.TABLES:
            self._source.flush(table)  # then the cluster itself does not need the WAL any more
        self._source.roll_wals()
        name, position = self._largest_wal()
        path = self._file_of(name)
        content = path.read_bytes()
        at = position + (len(content) - position) // 2
        if at + BROKEN_BYTES > len(content):
            raise FaultError(f"WAL {name} has too few bytes to break")
        self._damage = Damage(name, at, content[at : at + BROKEN_BYTES])
        _overwrite(path, at, b"\xff" * BROKEN_BYTES)
        self._ship()
        return [
            f"Overwrote {BROKEN_BYTES:,} bytes from byte {at:,} on in {path}, and let `walferry ship` meet them.",
            *self._look("the peer has failed; the queue's error has file and byte", "status"),
            "Run      the next run of replicate_peer fails, too: what comes before the damage is shipped, and it stops there",
            *_runbook("corrupt-wal", "break_wal", "puts the bytes back"),
        ]

    def _mend_wal(self) -> list[str]:
        if self._damage is None:
            return ["No WAL is broken."]
        damage, self._damage = self._damage, None
        try:
            path = self._file_of(damage.wal)
        except FaultError:
            return [f"WAL {damage.wal} is gone: HBase has deleted it, because no queue names it any more."]
        _overwrite(path, damage.at, damage.was)
        return [f"Put the {BROKEN_BYTES:,} bytes back into {path}."]

    def _spoil_position(self) -> list[str]:
        if self._spoilt is not None:
            raise FaultError(f"the position of {self._spoilt} is wrong already: `python -m demo.spoil_position --undo` mends it")
        self._ship()
        self._write()
        self._source.roll_wals()
        name, _ = self._largest_wal()
        with open_session(from_text(self._site.connection), look_only=True) as session:
            znode = find_wal(session, self._peer, name)
            if znode is None:
                raise FaultError(f"WAL {name} is not queued any more")
            session.zk.set(znode, encode_position(BEYOND))
        self._spoilt = name
        self._ship()
        return [
            f"Set the position of WAL {name} to byte {BEYOND:,}, beyond its end, and let `walferry ship` meet it.",
            *self._look("the peer has failed; the queue's error has file and byte", "status"),
            *_runbook("stale-position", "spoil_position", "sets it to 0"),
        ]

    def _set_position(self) -> list[str]:
        if self._spoilt is None:
            return ["No position is wrong."]
        wal, self._spoilt = self._spoilt, None
        walferry(self._site.connection, "queues", "set-position", self._peer, wal, "0", may_end_with=(0, 1))
        return [f"Set the position of WAL {wal} to 0, if it is still queued."]

    def _fall_behind(self) -> list[str]:
        if self._load is not None and self._load.is_alive():
            raise FaultError("it falls behind already: `python -m demo.fall_behind --undo` stops that")
        self._set_bandwidth(str(SLOW))
        self._stop_load.clear()
        self._load = threading.Thread(target=self._keep_writing, daemon=True)
        self._load.start()
        return [
            f"The peer may ship {SLOW:,} bytes a second, and about 2 MB a second are written to the source from now on.",
            *self._look("the lag and the backlog grow, and the time until done", "status"),
            "Run      runs of replicate_peer go on for long; the log of the task ship says how far they are",
            *_runbook("stuck-peer", "fall_behind", "stops the writing and lifts the limit"),
        ]

    def _catch_up(self) -> list[str]:
        self._stop_load.set()
        if self._load is not None:
            self._load.join()
        self._set_bandwidth("")
        return ["Nothing is written any more, and the peer ships as fast as it can. The next batch ships the rest."]

    def _drop_table(self) -> list[str]:
        for client in (self._source, self._peer_cluster):
            if not client.table_exists(DROPPED):
                client.create_table(DROPPED, {"why": GLOBAL})
        self._source.write(DROPPED, [wire.put(f"return{i:04}", {"why:text": b"too small"}) for i in range(100)])
        self._peer_cluster.drop_table(DROPPED)
        self._ship()
        return [
            f"Wrote 100 rows to table {DROPPED}, dropped it at the peer cluster, and let `walferry ship` meet them.",
            *self._look("the peer has failed; the queue's error names the table", "status"),
            "Run      the next run of replicate_peer fails, too, and its report says why",
            *_runbook("stuck-peer", "drop_table", "makes the table at the peer cluster again"),
        ]

    def _make_table(self) -> list[str]:
        if not self._peer_cluster.table_exists(DROPPED):
            self._peer_cluster.create_table(DROPPED, {"why": GLOBAL})
        return [f"The peer cluster has table {DROPPED} again. The next batch ships its rows."]

    def _forget_peer(self) -> list[str]:
        if any(peer.id == FORGOTTEN for peer in self._source.list_peers()):
            raise FaultError(f"there is a peer {FORGOTTEN} already: `python -m demo.forget_peer --undo` removes it")
        self._source.add_peer(FORGOTTEN, self._site.peer_cluster.address.cluster_key, enabled=False)
        self._write()
        for table in edits.TABLES:
            self._source.flush(table)
        self._ship()
        return [
            f"Added peer {FORGOTTEN}, DISABLED and not managed, wrote {ROWS:,} rows, and shipped them for {self._peer} only.",
            *self._look("what keeps oldWALs from being cleaned", "check", peer=False),
            "Run      a run of retention lists the WALs that the peer holds",
            *_runbook("oldwals-growing", "forget_peer", "removes the peer"),
        ]

    def _remove_forgotten(self) -> list[str]:
        if all(peer.id != FORGOTTEN for peer in self._source.list_peers()):
            return [f"There is no peer {FORGOTTEN}."]
        self._source.remove_peer(FORGOTTEN)
        return [f"Removed peer {FORGOTTEN}."]

    def _compare(self) -> list[str]:
        dropped = {DROPPED: {"why": GLOBAL}} if self._source.table_exists(DROPPED) else {}
        same, lines = outcome.compare(self._source, self._peer_cluster, {**edits.TABLES, **dropped})
        if not same:
            raise FaultError("\n".join(["the sides differ:", *lines]))
        return lines

    def _write_more(self) -> list[str]:
        self._write()
        return [f"Wrote {ROWS:,} rows to table clicks of the source."]

    def _write(self) -> None:
        """New rows in all regions of a table, so that every RegionServer has some."""
        self._source.put_many("clicks", ROWS, ["click:page"], first=self._rows)
        self._rows += ROWS

    def _keep_writing(self) -> None:
        for _ in range(LOAD_ROUNDS):
            self._source.put_many("clicks", LOAD_ROWS, ["click:page"], first=self._rows, value_bytes=LOAD_VALUE_BYTES)
            self._rows += LOAD_ROWS
            if self._stop_load.wait(LOAD_PAUSE_SECONDS):
                return

    def _set_bandwidth(self, value: str) -> None:
        walferry(self._site.connection, "peers", "set", self._peer, f"bandwidth={value}")

    def _ship(self) -> None:
        """A batch, whatever comes of it."""
        walferry(self._site.connection, "ship", self._peer, may_end_with=(0, 3))

    def _largest_wal(self) -> tuple[str, int]:
        """The oldest WAL of the group with the most to ship, and its position."""
        queues = as_json(self._site.connection, "queues", self._peer)["queues"]
        groups = [group for queue in queues for group in queue["groups"] if group["bytes_left"]]
        if not groups:
            raise FaultError("no closed WAL is queued")
        largest = max(groups, key=lambda group: group["bytes_left"]["known"])
        return largest["oldest"]["name"], largest["oldest"]["position"] or 0

    def _file_of(self, wal: str) -> Path:
        """The file of a WAL, which HBase archives within moments."""
        root = Path(urlsplit(self._site.source.address.wal_root).path)
        give_up = time.monotonic() + ARCHIVED_SECONDS
        while True:
            if (archived := root / "oldWALs" / wal).exists():
                return archived
            if time.monotonic() > give_up:
                break
            time.sleep(0.2)
        found = next(iter((root / "WALs").glob(f"*/{wal}")), None)
        if found is None:
            raise FaultError(f"there is no file of WAL {wal}")
        return found

    def _look(self, what: str, command: str, *, peer: bool = True) -> list[str]:
        words = f"{command} {self._peer}" if peer else command
        return [f"Page     {self._page}: {what}", f"Command  python -m demo.run walferry {words}"]


def _overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def _runbook(runbook: str, script: str, undo: str) -> Sequence[str]:
    return [f"Runbook  docs/runbooks/{runbook}.md", f"Undo     python -m demo.{script} --undo     {undo}"]
