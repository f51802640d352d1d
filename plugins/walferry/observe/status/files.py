"""Reads from the files of queued WALs their sizes, and when the first edit behind a position was written.

A look lists each folder that contains new WALs once, and opens a bounded number of files. It keeps values that cannot change any
more for later looks: the size of a WAL that is closed for good, and the entry behind a position. If a file is not looked at in
time, an age only becomes less exact.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.hbase.files.clients import scheme
from walferry.hbase.files.closedness import Closed, closedness
from walferry.hbase.files.listing import locate_all
from walferry.hbase.files.store import WalLocation, WalStore
from walferry.hbase.files.systems import OpenWal
from walferry.hbase.names import WalName
from walferry.hbase.wal.errors import WalTruncatedError
from walferry.hbase.wal.header import MAX_HEADER_BYTES, parse_header
from walferry.replication.queues.queue import Queue, QueuedWal, closed_groups, groups
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.candidates import Candidate

if TYPE_CHECKING:  # pages and commands import this, and must not wait for numba
    from walferry.hbase.wal.wal_batches import UnwrapKey

MAX_OPENS = 64  # in one look
LOOK_SECONDS = 5.0  # for opening files
ROUNDS = 3  # WALs of a group to open in one look, as the first ones may have nothing behind their positions
AGAIN_SECONDS = 60.0  # before a file without a result is opened again
OPEN_SECONDS = 20.0  # before a WAL that is being written, and had nothing behind its position, is opened again
CLOSED_FOR_MS = 120_000  # a live server closes a WAL seconds after it has begun the next one
FAR_BYTES = 8 << 20  # a compressed WAL is read from its beginning, so one with a position beyond this is not opened
MAX_PROBLEM_CHARS = 1000

Place = tuple[str, int]  # a WAL's name and a position in it

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Read:
    """What is behind a position: the write time of the first entry there, in ms since the epoch; None: no entry is there.

    `open_ms` is when the file was read, if entries may have been added since.
    """

    written_ms: int | None
    open_ms: int | None = None


@dataclass(frozen=True)
class FilesSeen:
    """The known values of files. WALs without a size were not found, or not looked for."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    growing: frozenset[str] = frozenset()  # they may be longer than their sizes say
    reads: Mapping[Place, Read] = field(default_factory=dict)
    problem: str | None = None  # why not all files were read

    def read_at(self, wal: str, position: int) -> Read | None:
        """Return what is behind this position; None if that is not known."""
        return self.reads.get((wal, position))


class Files:
    """The known values of one source's files. Any thread may ask for a look; one look is made at a time."""

    def __init__(self, source: SourceCluster) -> None:
        self._source = source
        self._store = WalStore(source.wal_root, look_only=True)
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}  # final ones
        self._reads: dict[Place, Read] = {}  # that stay true
        self._again: dict[Place, float] = {}  # when to open it again, by time.monotonic

    def look(self, queues: Sequence[Queue], max_opens: int = MAX_OPENS) -> FilesSeen:
        """Look at the files of the WALs in these queues, whose positions were read. `problem` says what went wrong."""
        with self._lock:
            at = time.time()
            queues = [replace(queue, wals=tuple(queue.wals)) for queue in queues]  # they are gone through several times
            every = {wal.text: (wal, dead_servers) for queue in queues for wal, dead_servers in _closed(queue)}
            wanted = [each for name, each in every.items() if name not in self._sizes]
            try:
                self._store.check_root()
                found = locate_all(self._store, wanted)
                keys = self._source.keys()
            except (WalferryError, OSError) as error:
                return FilesSeen(dict(self._sizes), reads=dict(self._reads), problem=one_line(str(error), MAX_PROBLEM_CHARS))
            sizes = {name: size for name, size in self._sizes.items() if name in every}
            sizes |= {name: location.size for name, location in found.items()}
            growing = frozenset(name for queue in queues for name in _maybe_unclosed(queue, found))
            final = {name for queue in queues for name in _final(queue, found, at)} - growing
            self._sizes = {name: size for name, size in sizes.items() if name in self._sizes or name in final}
            _Reads(self._store, keys, self._reads, self._again, max_opens).make(queues)
            self._forget(queues)
            return FilesSeen(sizes, growing, dict(self._reads))

    def _forget(self, queues: Sequence[Queue]) -> None:
        """Keep only values that may be asked for again."""
        queued = {wal.name.text for queue in queues for wal in queue.wals}
        now = time.monotonic()
        self._reads = {place: read for place, read in self._reads.items() if place[0] in queued}
        self._again = {place: at for place, at in self._again.items() if at > now}


@dataclass(frozen=True, slots=True)
class _Turn:
    """A WAL that is to be read."""

    peer_id: str
    is_open: bool
    last_ms: int  # when it was read last, 0: never
    begun_ms: int
    wal: Candidate


class _Reads:
    """The openings of one look."""

    def __init__(
        self, store: WalStore, keys: UnwrapKey | None, kept: dict[Place, Read], again: dict[Place, float], opens: int
    ) -> None:
        self._store, self._keys, self._kept, self._again = store, keys, kept, again
        self._left = opens
        self._give_up, self._now_ms = time.monotonic() + LOOK_SECONDS, int(time.time() * 1000)

    def make(self, queues: Sequence[Queue]) -> None:
        """Open files until the first waiting edit of each group is known, or no opening is left."""
        for _ in range(ROUNDS):
            turns = {_place(turn.wal.queued): turn for queue in queues for turn in self._next(queue)}  # peers may share a WAL
            for turn in _peers_in_turn(list(turns.values())):
                if self._left <= 0 or time.monotonic() > self._give_up:
                    return
                self._left -= 1
                self._read(turn.wal, is_open=turn.is_open)

    def _next(self, queue: Queue) -> Iterator[_Turn]:
        """Yield of each group the first WAL that may contain the oldest waiting edit, if it must be read for that."""
        closed = closed_groups(queue)
        for group, wals in groups(queue).items():
            for number, wal in enumerate(wals):
                place = _place(wal)
                if place is None or self._again.get(place, 0.0) > time.monotonic():
                    break
                read, is_open = self._kept.get(place), number >= len(closed[group])
                if read is None or self._may_have_grown(read, is_open=is_open):
                    last_ms = read.open_ms if read and read.open_ms else 0
                    candidate = Candidate(wal, queue.live, _dead_servers(queue))
                    yield _Turn(queue.id.peer_id, is_open, last_ms, wal.name.timestamp, candidate)
                if read is None or read.written_ms is not None or read.open_ms is not None:
                    break

    def _may_have_grown(self, read: Read, *, is_open: bool) -> bool:
        """Return whether a WAL without edits behind its position may have some now. Once it is closed, it is read again."""
        return read.open_ms is not None and (not is_open or read.open_ms < self._now_ms - OPEN_SECONDS * 1000)

    def _read(self, wal: Candidate, *, is_open: bool) -> None:
        place = wal.queued.name.text, wal.queued.position
        try:
            found = self._behind(wal, is_open=is_open)
        except (WalferryError, OSError) as error:  # shipping says what is wrong with a file
            log.info("the first edit behind position %d of WAL %s is not known: %s", place[1], place[0], error)
            found = None
        if found is None:
            self._again[place] = time.monotonic() + AGAIN_SECONDS
        else:
            self._kept[place] = found

    def _behind(self, wal: Candidate, *, is_open: bool) -> Read | None:
        """Return what is behind the WAL's position; None if that cannot be known now."""
        from walferry.shipping.lag import written_behind

        store, position = self._store, wal.queued.position
        location = store.locate(wal.queued.name, wal.dead_servers)
        if location is None:
            return None
        opened_ms = int(time.time() * 1000)
        with store.open(location) as file:
            if position > FAR_BYTES and _is_compressed(file, location.url):
                return None
            written = written_behind(file, location.url, position, self._keys)
        if written is not None:
            return Read(written)
        if is_open:  # HDFS shows other clients an old length of a file that is being written
            return Read(None, opened_ms) if scheme(location.url) == "file" else None
        return Read(None) if isinstance(closedness(store, location), Closed) else None


def _closed(queue: Queue) -> list[tuple[WalName, Sequence[str]]]:
    """Return the queue's closed WALs, with the dead servers whose folders may contain them."""
    dead_servers = _dead_servers(queue)
    return [(wal.name, dead_servers) for wals in closed_groups(queue).values() for wal in wals]


def _dead_servers(queue: Queue) -> tuple[str, ...]:
    return queue.id.dead_servers if queue.live else (*queue.id.dead_servers, queue.server)


def _place(wal: QueuedWal) -> Place | None:
    return (wal.name.text, wal.position_or_problem) if isinstance(wal.position_or_problem, int) else None


def _maybe_unclosed(queue: Queue, found: Mapping[str, WalLocation]) -> Iterator[str]:
    """Yield the newest WAL of each of a dead server's groups, until HBase has archived it: the server may not have closed it."""
    for wals in groups(queue).values() if not queue.live else ():
        location = found.get(wals[-1].name.text)
        if location is not None and not location.archived:
            yield wals[-1].name.text


def _final(queue: Queue, found: Mapping[str, WalLocation], at: float) -> Iterator[str]:
    """Yield the WALs that were found and do not grow any more: archived WALs, and WALs that were closed a while ago."""
    closed_before = at * 1000 - CLOSED_FOR_MS
    for wals in groups(queue).values():
        for wal, newer in zip(wals, (*wals[1:], None), strict=True):
            location = found.get(wal.name.text)
            if location is None:
                continue
            if location.archived or (queue.live and newer is not None and newer.name.timestamp < closed_before):
                yield wal.name.text


def _peers_in_turn(turns: Sequence[_Turn]) -> list[_Turn]:
    """Return the oldest WAL of each peer first, so that no peer uses all openings; open WALs come last, in turn."""
    by_age = sorted(turns, key=lambda turn: (turn.is_open, turn.last_ms, turn.begun_ms))
    before: Counter[str] = Counter()
    ranked = []
    for turn in by_age:
        ranked.append((turn.is_open, before[turn.peer_id], turn))
        before[turn.peer_id] += 1
    return [turn for _, _, turn in sorted(ranked, key=lambda each: each[:2])]


def _is_compressed(file: OpenWal, url: str) -> bool:
    try:
        return parse_header(file.read_at(0, min(file.size, MAX_HEADER_BYTES)), url).compression is not None
    except WalTruncatedError:
        return False
