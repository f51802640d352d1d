"""Errors that end the sending of requests, for any sink."""

from __future__ import annotations

from datetime import UTC, datetime

from walferry.base.errors import WalferryError
from walferry.hbase.wal.errors import WalError


class Stopped(Exception):
    """The group's shipping is to stop. A signal to the reader and the senders, not an error."""


class PeerClusterUnreachable(WalferryError):
    """`peer_cluster` has acknowledged nothing since `since` (s since the epoch), in `tries` tries; the last gave `last_error`.

    `tries` is 0 if the deadline had passed before the first one. `answered`: whether the peer cluster itself sent the last error.
    """

    def __init__(
        self, peer_cluster: str, since: float, tries: int, last_error: str, *,
        patience_seconds: float | None = None, answered: bool = False,
    ) -> None:  # fmt: skip
        until = "until the deadline" if patience_seconds is None else f"for more than {patience_seconds:g} s"
        when = f"{datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"
        count = "1 try" if tries == 1 else f"{tries} tries"
        problem = (
            f"peer cluster {peer_cluster} has acknowledged nothing since {when}, {until}, in {count}; the last: "
            f"{last_error.rstrip('.')}"
        )
        super().__init__(problem, "The backlog is kept, and the next batch tries again")
        self.problem = problem
        self.peer_cluster = peer_cluster
        self.tries = tries
        self.last_error = last_error
        self.answered = answered


class PeerClusterRefusesLogin(WalferryError):
    """ZooKeeper of `peer_cluster` does not accept our login, and will not accept it later; `why` gives the reason."""

    retry_helps = False

    def __init__(self, peer_cluster: str, why: str) -> None:
        super().__init__(f"peer cluster {peer_cluster} does not let us in: {why}")


class CellRefused(WalferryError):
    """A cell exceeds the size that `server` of the peer cluster accepts. The peer cluster is fine, and other cells arrive."""

    retry_helps = False

    def __init__(self, server: str, table: str, row: str, size: int, limit: int | None) -> None:
        most = "than it takes" if limit is None else f"than the {limit:,} that it takes"
        super().__init__(
            f"{server}: a cell of table {table}, row {row}, has {size:,} bytes, more {most} (hbase.server.keyvalue.maxsize, and "
            "hbase.client.keyvalue.maxsize of the peer cluster's servers)",
            "Raise these settings on all servers of the peer cluster to what the source has, or leave the family out of the "
            "peer; until then its WAL group waits",
        )


class NotAtPeerCluster(WalferryError):
    """The peer cluster lacks the table, or the `family` of it. The text comes from `refusal`, the peer cluster's answer."""

    retry_helps = False

    def __init__(self, refusal: WalferryError, table: str, family: str | None = None) -> None:
        super().__init__(str(refusal))
        self.table = table
        self.family = family


class OnlyCells(WalError):
    """An entry has what only an HBase cluster can take: a lake and Kafka get cells."""

    retry_helps = False
    advice = "The docs' pages on lakes and on Kafka say what to do; until then this queue waits"
