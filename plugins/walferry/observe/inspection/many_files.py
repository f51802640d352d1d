"""Searches many files side by side, and hands out their parts file by file, in the order of the files.

Threads do this, because reading and the compiled passes leave Python's lock to the others. A file whose turn has not come may
have some parts ready, and then waits. So memory does not grow with the files, nor with what is found in them.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import Full, Queue

from walferry.observe.inspection.searching import Answer, Question, search

LEAST_THREADS = 4  # remote files keep a thread waiting more than computing
PARTS_READY = 4  # of a file whose turn has not come
POLL_SECONDS = 0.1

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
    except BaseException as error:  # a fault of the program: it ends the search
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
