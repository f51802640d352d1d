"""Keeps values that are expensive to make for some seconds, so that many viewers share one value."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MAX_KEYS = 64  # that are kept

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cached(Generic[K, V]):
    """Keeps the values that `make` makes of keys for `keep_seconds`. Its methods may be called from any thread.

    One thread makes the value of a key, whatever number of callers wait for it. A caller waits at most `wait_seconds`. If the
    value is not made by then, the caller gets the previous value, which may be old, or None if there was none.
    """

    def __init__(self, make: Callable[[K], V], keep_seconds: float, wait_seconds: float) -> None:
        self._make = make
        self._keep_seconds = keep_seconds
        self._wait_seconds = wait_seconds
        self._changed = threading.Condition()
        self._being_made: set[K] = set()
        self._made: dict[K, tuple[float, V]] = {}
        self._failed: dict[K, tuple[float, Exception]] = {}

    def get(self, key: K, wait_seconds: float | None = None) -> V | None:
        """Return the value of the key. Raises the error of `make` for it, again until `keep_seconds` are over.

        With `wait_seconds`, this caller waits that long instead; with 0, it only starts the making for later callers.
        """
        give_up = time.monotonic() + (self._wait_seconds if wait_seconds is None else wait_seconds)
        with self._changed:
            if not self._is_fresh(key) and key not in self._being_made:
                self._being_made.add(key)
                threading.Thread(target=self._run, args=(key,), name="a look at a source", daemon=True).start()
            while key in self._being_made and (left := give_up - time.monotonic()) > 0:
                self._changed.wait(left)
            if key in self._failed:
                raise self._failed[key][1].with_traceback(None)
        return self.last(key)

    def last(self, key: K) -> V | None:
        """Return the value that was made last, however old it is; None if there is none."""
        with self._changed:
            made = self._made.get(key)
            return None if made is None else made[1]

    def known(self) -> set[K]:
        """Return the keys whose values are kept, or are being made."""
        with self._changed:
            return self._being_made | self._made.keys() | self._failed.keys()

    def _is_fresh(self, key: K) -> bool:
        times = [kept[key][0] for kept in (self._made, self._failed) if key in kept]
        return bool(times) and time.monotonic() - max(times) < self._keep_seconds

    def _run(self, key: K) -> None:
        made: V | None = None
        failed: Exception | None = None
        try:
            made = self._make(key)
        except Exception as error:  # `get` raises it
            failed = error
        with self._changed:
            now = time.monotonic()
            if failed is None:
                self._made[key] = now, made  # type: ignore[assignment]  # V may be optional itself
                self._failed.pop(key, None)
            else:
                self._failed[key] = now, failed
            self._being_made.discard(key)
            self._drop_oldest()
            self._changed.notify_all()

    def _drop_oldest(self) -> None:
        for kept in (self._made, self._failed):
            for key in sorted(kept, key=lambda key: kept[key][0])[:-MAX_KEYS]:
                del kept[key]
