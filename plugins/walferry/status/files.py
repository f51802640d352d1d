"""What the files of queued WALs tell: their sizes, and when the first edit behind a position was written.

A look costs one listing of each folder that has WALs which were not seen before, and opens a bounded number of files. What cannot
change any more is kept from look to look: the size of a WAL that is closed for good, and the entry behind a position. A file that
is not looked at in time only makes an age less exact.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from walferry.errors import WalferryError
from walferry.files.closedness import Closed, closedness
from walferry.files.listing import locate_all
from walferry.files.store import WalLocation, WalStore
from walferry.files.systems import OpenWal, scheme
from walferry.queues.reading import Queue, QueuedWal, closed_groups, groups
from walferry.shipping.candidates import Candidate
from walferry.source.cluster import SourceCluster
from walferry.texts import one_line
from walferry.wal.errors import WalTruncatedError
from walferry.wal.header import MAX_HEADER_BYTES, parse_header
from walferry.wal.windows import UnwrapKey

MAX_OPENS = 64  # in one look
LOOK_SECONDS = 5.0  # for opening files
ROUNDS = 3  # WALs of a group that are opened in one look, as the first ones may have nothing behind their positions
AGAIN_SECONDS = 60.0  # before a file that told nothing is opened again
CLOSED_FOR_MS = 120_000  # a live server closes a WAL seconds after it has begun the next one
FAR_BYTES = 8 << 20  # a compressed WAL is read from its beginning, so one with a position beyond this is not opened
MAX_PROBLEM_CHARS = 1000

Place = tuple[str, int]  # a WAL's name and a position in it

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Read:
    """What is behind a position: when the first entry there was written, in ms since the epoch; None: no entry is there."""

    written_ms: int | None


@dataclass(frozen=True)
class FilesSeen:
    """What is known of files. WALs without a size were not found, or not looked for."""

    at: float
    sizes: Mapping[str, int] = field(default_factory=dict)
    growing: frozenset[str] = frozenset()  # they may be longer than their sizes say
    reads: Mapping[Place, Read] = field(default_factory=dict)
    problem: str | None = None  # why not all files were looked at

    def read_at(self, wal: str, position: int) -> Read | None:
        """What is behind this position; None if that is not known."""
        return self.reads.get((wal, position))


class Files:
    """What is known of one source's files. Looks may be asked for from any thread; one is made at a time."""

    def __init__(self, source: SourceCluster) -> None:
        self._source = source
        self._store = WalStore(source.wal_root, look_only=True)
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}  # final ones
        self._reads: dict[Place, Read] = {}  # that stay true
        self._again: dict[Place, float] = {}  # when to open it again, by time.monotonic

    def look(self, queues: Sequence[Queue], max_opens: int = MAX_OPENS) -> FilesSeen:
        """Look at the files of the WALs in these queues, whose positions were read. What goes wrong is told as `problem`."""
        with self._lock:
            at = time.time()
            every = {wal.queued.name.text: wal for queue in queues for wal in _closed(queue)}
            wanted = [(wal.queued.name, wal.dead_servers) for name, wal in every.items() if name not in self._sizes]
            try:
                self._store.check_root()
                found = locate_all(self._store, wanted)
                keys = self._source.keys()
            except (WalferryError, OSError) as error:
                return FilesSeen(at, dict(self._sizes), problem=one_line(str(error), MAX_PROBLEM_CHARS))
            sizes = {name: size for name, size in self._sizes.items() if name in every}
            sizes |= {name: location.size for name, location in found.items()}
            growing = frozenset(name for queue in queues for name in _maybe_unclosed(queue, found))
            final = {name for queue in queues for name in _final(queue, found, at)} - growing
            self._sizes = {name: size for name, size in sizes.items() if name in self._sizes or name in final}
            reads = _Reads(self._store, keys, self._reads, self._again, max_opens)
            reads.make(queues)
            self._forget(queues)
            return FilesSeen(at, sizes, growing, reads.found)

    def _forget(self, queues: Sequence[Queue]) -> None:
        """Keep only what may be asked for again."""
        queued = {wal.name.text for queue in queues for wal in queue.wals}
        now = time.monotonic()
        self._reads = {place: read for place, read in self._reads.items() if place[0] in queued}
        self._again = {place: at for place, at in self._again.items() if at > now}


class _Reads:
    """The openings of one look."""

    def __init__(
        self, store: WalStore, keys: UnwrapKey | None, kept: dict[Place, Read], again: dict[Place, float], opens: int
    ) -> None:
        self.found = dict(kept)
        self._store, self._keys, self._kept, self._again = store, keys, kept, again
        self._left = opens
        self._give_up = time.monotonic() + LOOK_SECONDS

    def make(self, queues: Sequence[Queue]) -> None:
        """Open files until the first waiting edit of each group is known, or no opening is left."""
        for _ in range(ROUNDS):
            for wal, is_open in _peers_in_turn([each for queue in queues for each in self._next(queue)]):
                if self._left <= 0 or time.monotonic() > self._give_up:
                    return
                self._left -= 1
                self._read(wal, is_open=is_open)

    def _next(self, queue: Queue) -> Iterator[tuple[str, Candidate, bool]]:
        """Of each group the first WAL that may have the oldest waiting edit, if it was not read: its peer, and if it is open."""
        closed = closed_groups(queue)
        for group, wals in groups(queue).items():
            for number, wal in enumerate(wals):
                place = _place(wal)
                if place is None or self._again.get(place, 0.0) > time.monotonic():
                    break
                read = self.found.get(place)
                if read is None:
                    yield queue.id.peer_id, _candidate(queue, wal), number >= len(closed[group])
                if read is None or read.written_ms is not None:
                    break

    def _read(self, wal: Candidate, *, is_open: bool) -> None:
        place = wal.queued.name.text, wal.queued.position
        self._again[place] = time.monotonic() + AGAIN_SECONDS
        try:
            found = self._behind(wal, is_open=is_open)
        except (WalferryError, OSError) as error:  # shipping says what is wrong with a file
            log.info("the first edit behind position %d of WAL %s is not known: %s", place[1], place[0], error)
            return
        if found is None:
            return
        self.found[place] = found
        if found.written_ms is not None or not is_open:
            self._kept[place] = found
            del self._again[place]

    def _behind(self, wal: Candidate, *, is_open: bool) -> Read | None:
        """What is behind the WAL's position; None if that cannot be known now."""
        from walferry.shipping.lag import written_behind  # takes a second to import, and is not needed without files

        store, position = self._store, wal.queued.position
        location = store.locate(wal.queued.name, wal.dead_servers)
        if location is None:
            return None
        with store.open(location) as file:
            if position > FAR_BYTES and _is_compressed(file, location.url):
                return None
            written = written_behind(file, location.url, position, self._keys)
        if written is not None:
            return Read(written)
        return Read(None) if _is_whole(store, location, is_open=is_open) else None


def _closed(queue: Queue) -> list[Candidate]:
    return [_candidate(queue, wal) for wals in closed_groups(queue).values() for wal in wals]


def _candidate(queue: Queue, wal: QueuedWal) -> Candidate:
    dead = queue.id.dead_servers if queue.live else (*queue.id.dead_servers, queue.server)
    return Candidate(wal, queue.live, dead)


def _place(wal: QueuedWal) -> Place | None:
    return (wal.name.text, wal.position_or_problem) if isinstance(wal.position_or_problem, int) else None


def _maybe_unclosed(queue: Queue, found: Mapping[str, WalLocation]) -> Iterator[str]:
    """The newest WAL of each of a dead server's groups, until HBase has archived it: its server may not have closed it."""
    for wals in groups(queue).values() if not queue.live else ():
        location = found.get(wals[-1].name.text)
        if location is not None and not location.archived:
            yield wals[-1].name.text


def _final(queue: Queue, found: Mapping[str, WalLocation], at: float) -> Iterator[str]:
    """The WALs that were found and do not grow any more: archived ones, and those that were closed a while ago."""
    closed_before = at * 1000 - CLOSED_FOR_MS
    for wals in groups(queue).values():
        for wal, newer in zip(wals, (*wals[1:], None), strict=True):
            location = found.get(wal.name.text)
            if location is None:
                continue
            if location.archived or (queue.live and newer is not None and newer.name.timestamp < closed_before):
                yield wal.name.text


def _peers_in_turn(wals: Sequence[tuple[str, Candidate, bool]]) -> list[tuple[Candidate, bool]]:
    """The WALs to open, the oldest of each peer first, so that no peer's WALs take all openings. Open ones come last."""
    turns: dict[str, int] = {}
    ranked: list[tuple[int, int, Candidate, bool]] = []
    for peer_id, wal, is_open in sorted(wals, key=lambda each: (each[2], each[1].queued.name.timestamp)):
        turns[peer_id] = turn = turns.get(peer_id, 0) + 1
        ranked.append((turn, len(ranked), wal, is_open))
    return [(wal, is_open) for _, _, wal, is_open in sorted(ranked, key=lambda each: each[:2])]


def _is_compressed(file: OpenWal, url: str) -> bool:
    try:
        return parse_header(file.read_at(0, min(file.size, MAX_HEADER_BYTES)), url).compression is not None
    except WalTruncatedError:
        return False


def _is_whole(store: WalStore, location: WalLocation, *, is_open: bool) -> bool:
    """Whether all that was written to the file can be seen. HDFS shows outsiders a stale length of a file that is written to."""
    if is_open:
        return scheme(location.url) == "file"
    return isinstance(closedness(store, location), Closed)
