"""Limits the wait for library calls without a time limit: Kerberos asks each of its KDCs for up to a minute, and longer.

Dialogues with a server are written without I/O. Such calls are steps in them, and the channel sees to the time limit.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

T = TypeVar("T")

MOST_LEFT_BEHIND = 32  # calls that wait for the same thing


class Slow(NamedTuple):
    """A call that may take long. `what` names the thing it waits for: an identity, and the realm whose KDCs are asked."""

    call: Callable[[], bytes]
    what: str


ANY = -1
Step = bytes | int | Slow
Steps = Generator[Step, bytes, T]
"""A dialogue without I/O. It yields bytes to be sent, the number of bytes that it needs (ANY: the next ones; empty at the end),
or a call that may take long, and gets that call's result. An error of the step, TimeoutError too, is raised at the yield."""


def in_background(call: Callable[[], T], name: str) -> Future[T]:
    """Begin a call in a thread of its own, for which the process does not wait at its end. It may hang for ever."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # hdfs-native's panics are not Exceptions
            result.set_exception(error)

    threading.Thread(target=run, daemon=True, name=name).start()
    return result


def within(seconds: float, call: Callable[[], T], what: str = "") -> T:
    """Return the result of `call`. Raises TimeoutError if it takes too long; the call then goes on in the background, unused.

    At most MOST_LEFT_BEHIND calls that wait for `what` can be under way; further calls wait for a place. Calls that wait for
    something else have places of their own: the silent KDCs of one cluster must not hold up the logins to another.
    """
    give_up = time.monotonic() + seconds
    places = _places(what)
    if not places.acquire(timeout=max(0.0, seconds)):
        raise TimeoutError
    result = in_background(call, "walferry-kerberos")
    result.add_done_callback(lambda _: places.release())
    return result.result(max(0.0, give_up - time.monotonic()))


@functools.lru_cache(maxsize=1024)
def _places(what: str) -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(MOST_LEFT_BEHIND)
