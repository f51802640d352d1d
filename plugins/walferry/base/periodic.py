"""Repeats a call every few seconds during other work, for example to report its progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def every(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Call `call` every few seconds in a thread of its own while the block runs. An error that it raises ends the calls."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(seconds):
            call()

    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
