"""Reads WALs, even if they are moved meanwhile, and prints the wanted cells.

Many files are searched in parallel, but their output comes file by file, in the order of the files. Threads do this, because
reading and the compiled passes release Python's lock. A file whose turn has not come may have some parts ready, and then waits.
So memory grows neither with the files nor with the cells that are found.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from queue import Full, Queue

from walferry.base.errors import WalferryError
from walferry.hbase.files.closedness import looks_closed
from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.files.store import WALS, WalStore
from walferry.hbase.files.systems import OpenWal, open_wal
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.errors import WalError, WalTruncatedError
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.wal_batches import UnwrapKey
from walferry.observe.inspection.layouts import Layout
from walferry.observe.inspection.printing import Printer
from walferry.observe.inspection.selection import Selection, select

LEAST_THREADS = 4  # remote files keep a thread waiting more than computing
PARTS_READY = 4  # of a file whose turn has not come
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Question:
    """The question to each file. `position` is the entry to begin with, and 0 the first one."""

    selection: Selection
    layout: Callable[[str, bool], Layout]  # of the file behind a URL, with the cells' values or without
    values: bool = False
    keys: UnwrapKey | None = None
    position: int = 0


@dataclass
class Answer:
    """The answer of one file.

    `problem` says why the file could not be read to its end, and `note` why the file may grow later.
    """

    url: str
    bytes: int = 0
    cells: int = 0
    problem: str = ""
    note: str = ""


def search(url: str, question: Question, stopped: Callable[[], bool] = lambda: False) -> Iterator[bytes | Answer]:
    """Yield the output of one file in parts, and at the end the answer. Ends early once it is `stopped`.

    It raises no error of the file or its file system: the answer contains it.
    """
    answer = Answer(url)
    try:
        with _open(answer) as file:
            yield from _search(file, answer, question, stopped)
    except WalTruncatedError as error:
        answer.note = f"{error.path} at byte {error.offset}: {error.reason}; it is still being written, or its server died"
    except UnreadableBytes as error:
        answer.problem = str(error)
    except WalError as error:  # the error's advice is for batches
        answer.problem = f"{error.path} at byte {error.offset}: {error.reason}"
    except IsADirectoryError:
        answer.problem = f"{url} is a folder: `wal find` looks into folders"
    except FileNotFoundError:
        answer.problem = f"{url}: there is no such file"
    except (WalferryError, OSError) as error:
        answer.problem = str(error) if answer.url in str(error) else f"{answer.url}: {error}"
    yield answer


def _open(answer: Answer) -> OpenWal:
    """Open the file, or the one to which HBase has moved it since it was listed. Raises FileNotFoundError, StoreError."""
    try:
        return open_wal(answer.url)
    except FileNotFoundError:
        root, _, rest = answer.url.rpartition(f"/{WALS}/")
        server, _, file_name = rest.partition("/")
        try:
            location = WalStore(root, look_only=True).locate(parse_wal_name(file_name), [server]) if root else None
        except ValueError:
            location = None
        if location is None:
            raise
        answer.url = location.url
        return open_wal(location.url)


def _search(file: OpenWal, answer: Answer, question: Question, stopped: Callable[[], bool]) -> Iterator[bytes]:
    url = answer.url
    if not file.size:
        answer.note = f"{url} is empty: it is still being written, or its server died before it wrote anything"
        return
    if looks_closed(file) is False:
        answer.note = f"{url} is not closed: it may hold more than its {file.size} bytes"
    printer = Printer(question.layout(url, question.values), url)
    for batch in read_wal_batches(file, url, question.position, partial_tail="error", unwrap_key=question.keys):
        selected = select(batch, question.selection)
        yield from printer.print(batch, selected)
        answer.bytes = int(batch.next_positions[-1])
        answer.cells += len(selected)
        if stopped():
            return
    answer.bytes = file.size


_Parts = Queue[bytes | Answer | BaseException]


def search_all(urls: Iterable[str], question: Question) -> Generator[bytes | Answer, None, None]:
    """Yield the parts and the answer of each file, one file after the other. Closing the iterator ends the search."""
    threads = max(LEAST_THREADS, len(os.sched_getaffinity(0)))
    stop = threading.Event()
    left = iter(urls)
    with ThreadPoolExecutor(threads, thread_name_prefix="wal") as pool:

        def begin(url: str) -> _Parts:
            parts: _Parts = Queue(PARTS_READY)
            pool.submit(_search_into, parts, url, question, stop.is_set)
            return parts

        try:
            waiting = deque(begin(url) for url in islice(left, 2 * threads))
            while waiting:
                yield from _parts_of(waiting.popleft())
                waiting.extend(begin(url) for url in islice(left, 1))
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _parts_of(parts: _Parts) -> Iterator[bytes | Answer]:
    while True:
        part = parts.get()
        if isinstance(part, BaseException):
            raise part
        yield part
        if isinstance(part, Answer):
            return


def _search_into(parts: _Parts, url: str, question: Question, stopped: Callable[[], bool]) -> None:
    try:
        for part in search(url, question, stopped):
            if not _put(parts, part, stopped):
                return
    except BaseException as error:  # a fault of the program ends the search
        _put(parts, error, stopped)


def _put(parts: _Parts, part: bytes | Answer | BaseException, stopped: Callable[[], bool]) -> bool:
    """Hand out a part once there is room. Returns False if the search has ended before."""
    while not stopped():
        try:
            parts.put(part, timeout=POLL_SECONDS)
        except Full:
            continue
        return True
    return False
