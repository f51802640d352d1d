"""The protocol of a sink: its inputs, and the promises that it must keep.

    WalBatch + Kept  →  Sink.take  →  Take.request, Sink.join  →  Request  →  Sender.send

The reader hands over a batch and the edits that the filters kept. The sink says which entries it sends, and makes requests of
them. Shipping decides how many entries fit into a request, and which sender gets it when, but only counts its contents.

A sink keeps two promises:

- **Order.** The requests of one sender take effect in the order in which they are sent, and a region's entries within a request
  take effect in the order of the WAL. Senders are independent of each other: a region's entries always go through the same
  sender.
- **Acknowledged means durable.** When `send` returns, the target has all edits of the requests and keeps them through a crash.
  Shipping may forget them then. When `send` raises, any part of the edits may have arrived; shipping may send them again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

import numpy as np
import numpy.typing as npt

from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits
from walferry.replication.filters.rules import FilterRules
from walferry.replication.sinks.answers import Answers

Ints = npt.NDArray[np.int64]


class SinkRequest(Protocol):
    """Edits that one sender sends, in the order of the WAL."""

    @property
    def size(self) -> int:
        """Bytes that the request takes in memory until it is acknowledged."""

    @property
    def entry_count(self) -> int:
        """Entries of the WAL; 0 if nothing is sent, and sending only completes other work, such as releasing files."""

    @property
    def cell_count(self) -> int: ...

    @property
    def row_count(self) -> int:
        """Row mutations, as HBase counts operations."""

    @property
    def cell_bytes(self) -> int: ...

    @property
    def hfile_count(self) -> int:
        """The number of files that the target copies for bulk loads."""

    @property
    def last_write_time(self) -> int:
        """When the last entry was written, in ms since the epoch."""


class Take(Protocol):
    """The part of a WAL batch that a sink takes."""

    @property
    def entries(self) -> Ints:
        """The entries to send, as ascending indices into the batch."""

    @property
    def alone(self) -> Collection[int]:
        """The entries that need a request of their own."""

    def request(self, entries: Ints) -> SinkRequest:
        """Return a request for some of `entries`: at least one, ascending, for one sender. Copies the bytes from the batch."""


class Sender(Protocol):
    """Sends requests in order, on a thread of its own."""

    def send(self, requests: Sequence[SinkRequest], deadline: float) -> None:
        """Return when all requests are acknowledged: several in a row, or one that goes alone. `deadline` is on time.monotonic.

        Raises PeerClusterUnreachable when the deadline or the sink's patience is over, Stopped, and other lasting errors.
        """


class Sink(Protocol):
    """The target of one task. A context manager: entering it connects to the target, or raises as `Sender.send` does."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    @property
    def id(self) -> UUID:
        """The id in edits that come from the target; the filters drop these edits."""

    @property
    def answers(self) -> Answers:
        """The record of whether the target acknowledges edits."""

    @property
    def failed_requests(self) -> int:
        """The number of requests that had to be sent again."""

    @property
    def kind(self) -> str:
        """How edits are sent now."""

    @property
    def most_senders(self) -> int | None:
        """How many senders it may have; None for any number."""

    @property
    def refused(self) -> str | None:
        """Why the target has refused the requested way of sending edits; None if it has not."""

    def take(self, batch: WalBatch, kept: KeptEdits, rules: FilterRules, path: str) -> Take:
        """Choose the entries that this sink sends of a WAL batch of `path`. Notes in `kept` the fate of entries only it knows.

        Raises a WalError at the first entry that cannot be sent.
        """

    def join(self, requests: Sequence[SinkRequest]) -> SinkRequest:
        """Join requests for one sender into one. They are in order, and none of them must go alone."""

    def sender(self) -> Sender:
        """Return another sender. All senders of a task send side by side."""

    def look_after_calls(self, deadline: float) -> None:
        """Find the calls under way that the target still works on, and end the others. Called every few seconds.

        A call that the target works on is left alone for as long as it takes, beyond the deadline too.
        """

    def interrupt(self) -> None:
        """End all calls under way. The stop event has been set."""
