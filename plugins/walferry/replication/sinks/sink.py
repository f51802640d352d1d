"""What a sink is given, and what it must keep.

    Window + Kept  →  Sink.take  →  Take.request, Sink.join  →  Request  →  Sender.send

The reader hands over what was read and what the filters kept of it. The sink says which entries it sends, and makes requests of
them; shipping decides how many entries fit into a request, which sender gets it and when. A request is opaque to shipping: it
only counts what is in it.

A sink keeps two promises:

- **Order.** Requests that one sender sends one after the other take effect in that order, and within a request a region's entries
  do so in the order of the WAL. Senders are independent of each other: a region's entries always go through the same one.
- **Acknowledged means durable.** When `send` returns, the target has all edits of its requests and keeps them through a crash.
  Shipping may forget them then. When `send` raises, any part of them may have arrived; they may be sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

import numpy as np
import numpy.typing as npt

from walferry.hbase.wal.windows import Window
from walferry.replication.filters.rules import FilterRules
from walferry.replication.filters.window import KeptEdits
from walferry.replication.peers.settings import SinkKind
from walferry.replication.sinks.answers import Answers

Ints = npt.NDArray[np.int64]


class SinkRequest(Protocol):
    """Edits that one sender sends, in the order of the WAL."""

    @property
    def size(self) -> int:
        """Bytes that it holds in memory until it is acknowledged."""

    @property
    def entry_count(self) -> int:
        """Entries of the WAL; 0 if there is nothing to send and sending it only completes what belongs to it."""

    @property
    def cell_count(self) -> int: ...

    @property
    def row_count(self) -> int:
        """Row mutations, as HBase counts operations."""

    @property
    def cell_bytes(self) -> int: ...

    @property
    def hfile_count(self) -> int:
        """Files that the target copies for bulk loads."""

    @property
    def last_write_time(self) -> int:
        """When the last entry was written, in ms since the epoch."""


class Take(Protocol):
    """What a sink takes of one window."""

    @property
    def entries(self) -> Ints:
        """The entries to send, as ascending indices into the window."""

    @property
    def alone(self) -> Collection[int]:
        """Those among them that need a request of their own."""

    def request(self, entries: Ints) -> SinkRequest:
        """A request for some of `entries`, at least one, ascending and all for one sender. Copies what it needs of the window."""


class Sender(Protocol):
    """Sends requests in order, on a thread of its own."""

    def send(self, requests: Sequence[SinkRequest], deadline: float) -> None:
        """Return when all requests are acknowledged: some that follow each other, or one that goes alone. `deadline` is on
        time.monotonic.

        Raises SlaveUnreachable when the deadline or the sink's patience is over, Stopped, and any other error that trying
        again does not mend.
        """


class Sink(Protocol):
    """The target of one task. A context manager: entering it reaches the target, or raises as `Sender.send` does."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    @property
    def id(self) -> UUID:
        """The id that edits coming from the target carry; the filters drop these."""

    @property
    def answers(self) -> Answers:
        """Whether the target acknowledges what it is sent."""

    @property
    def failed_requests(self) -> int:
        """Requests that had to be sent again."""

    @property
    def kind(self) -> SinkKind:
        """How edits are sent now."""

    @property
    def refused(self) -> str | None:
        """Why the target has refused to be sent edits as it was asked for; None if it has not."""

    def take(self, window: Window, kept: KeptEdits, rules: FilterRules, path: str) -> Take:
        """What this sink sends of a window of the file `path`. Notes in `kept` what became of the entries that only it knows.

        Raises a WalError at the first entry that cannot be sent.
        """

    def join(self, requests: Sequence[SinkRequest]) -> SinkRequest:
        """Requests for one sender, in order and none of them alone, as one."""

    def sender(self) -> Sender:
        """Another sender. All of a task send side by side."""

    def look_after_calls(self, deadline: float) -> None:
        """Find out which calls under way the target still works on, and end those that it does not. Called every few seconds.

        A call that the target works on is left alone for as long as it takes, beyond the deadline too.
        """

    def interrupt(self) -> None:
        """End all calls under way. The stop event has been set."""
