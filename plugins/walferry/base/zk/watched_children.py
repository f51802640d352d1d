"""Keeps lists of children, and reads each of them again only after its watch has fired.

A list is kept as what its owner makes of it, which may be far smaller. ZooKeeper's watches end with the connection: then all
lists are read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from walferry.base.zk.client import Watch, children_each
from walferry.base.zk.errors import AnswerTooLong

T = TypeVar("T")


class WatchedChildren(Generic[T]):
    """What is known of the children of znodes, for one reader at a time; watches may fire meanwhile."""

    def __init__(self, kept: Callable[[Sequence[str]], T]) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._known: dict[str, T] = {}
        self._asked: set[str] = set()  # in the reading that is under way, and unchanged since
        self._client: KazooClient | None = None
        self._wake: Watch = lambda _: None

    def of(self, zk: KazooClient, paths: Sequence[str], wake: Watch) -> list[T | AnswerTooLong | None]:
        """Return what `kept` has made of each znode's children; None for a missing znode, the error for a list that is too long.

        `wake` is called, in a thread of the client, when one of the lists has changed or the connection was lost. A list that is
        too long, or whose znode is missing, is read each time. Raises ConnectError.
        """
        with self._lock:
            if zk is not self._client:
                self._client = zk
                self._known.clear()
            self._wake = wake
            found: dict[str, T | AnswerTooLong | None] = {path: self._known[path] for path in paths if path in self._known}
            missing = [path for path in paths if path not in found]
            self._asked = set(missing)
        listed = zip(missing, children_each(zk, missing, self._on_watch), strict=True)
        read = {path: self._kept(names) if isinstance(names, list) else names for path, names in listed}
        with self._lock:
            for path, value in read.items():
                if path in self._asked and value is not None and not isinstance(value, AnswerTooLong):
                    self._known[path] = value
            self._asked = set()
        found |= read
        return [found[path] for path in paths]

    def keep_only(self, paths: set[str]) -> None:
        """Forget all other znodes."""
        with self._lock:
            self._known = {path: value for path, value in self._known.items() if path in paths}

    def _on_watch(self, event: WatchedEvent) -> None:
        with self._lock:
            if event.path is None:  # the connection is lost, and all watches with it
                self._known.clear()
                self._asked.clear()
            else:
                self._known.pop(event.path, None)
                self._asked.discard(event.path)
            wake = self._wake
        wake(event)
