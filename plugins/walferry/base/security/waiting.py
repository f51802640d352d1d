"""Waits for calls of libraries that cannot be given a time: Kerberos asks its KDCs for up to a minute each, and longer."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

MOST_LEFT_BEHIND = 32  # of those that wait for the same


@dataclass(frozen=True)
class Slow:
    """A call that may take long, and a name of what it waits for: an identity, and the realm whose KDCs are asked."""

    call: Callable[[], bytes]
    what: str

    def __call__(self) -> bytes:
        return self.call()


def within(seconds: float, call: Callable[[], T], what: str = "") -> T:
    """The result of `call`. Raises TimeoutError if it does not come in time; the call then goes on behind our back, to no end.

    So many calls that wait for `what` can be left behind; further ones wait for a place. Calls that wait for something else have
    places of their own: the silent KDCs of one cluster must not hold up the logins to another.
    """
    give_up = time.monotonic() + seconds
    places = _places(what)
    if not places.acquire(timeout=max(0.0, seconds)):
        raise TimeoutError
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)
        finally:
            places.release()

    threading.Thread(target=run, daemon=True, name="walferry-kerberos").start()  # which no end of the process waits for
    return result.result(max(0.0, give_up - time.monotonic()))


@functools.lru_cache(maxsize=1024)
def _places(what: str) -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(MOST_LEFT_BEHIND)
