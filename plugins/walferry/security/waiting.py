"""Waits for calls of libraries that cannot be given a time: Kerberos asks its KDCs for up to a minute each, and longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

MOST_LEFT_BEHIND = 32
_PLACES = threading.BoundedSemaphore(MOST_LEFT_BEHIND)


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of `call`. Raises TimeoutError if it does not come in time; the call then goes on behind our back, to no end.

    So many calls can be left behind; further ones wait for a place.
    """
    give_up = time.monotonic() + seconds
    if not _PLACES.acquire(timeout=max(0.0, seconds)):
        raise TimeoutError
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)
        finally:
            _PLACES.release()

    threading.Thread(target=run, daemon=True, name="walferry-kerberos").start()  # which no end of the process waits for
    return result.result(max(0.0, give_up - time.monotonic()))
