"""Each finding about oldWALs says what to do."""

from __future__ import annotations

import time

import pytest

from walferry.hbase.files.store import WalStore
from walferry.hbase.names import parse_queue_id, parse_wal_name
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.queue import Queue, QueuedWal
from walferry.replication.retention.limits import _ADVICE, OldWalLimits, exceeded
from walferry.replication.retention.survey import OldWal, ShippedBy, surveyed

SERVER = "rs-1.example.org,16020,1700000000001"
NAME = "rs-1.example.org%2C16020%2C1700000000001.1700000000000"
CONFIGS = {
    ShippedBy.HBASE: ("ENABLED", {}),
    ShippedBy.WALFERRY: ("DISABLED", {"walferry.managed": "true"}),
    ShippedBy.NOBODY: ("DISABLED", {}),
    ShippedBy.PAUSED: ("DISABLED", {"walferry.managed": "true", "walferry.paused": "true"}),
    ShippedBy.GONE: None,
}


@pytest.mark.parametrize("shipped_by", list(ShippedBy), ids=lambda each: each.name)
def test_whoever_has_to_ship_what_is_kept_for_too_long_the_finding_says_what_to_do(shipped_by: ShippedBy) -> None:
    now = time.time()
    queue = Queue(SERVER, parse_queue_id("p"), "/x", (QueuedWal(parse_wal_name(NAME), f"/x/{NAME}", None),), True, ())
    given = CONFIGS[shipped_by]
    peers = {} if given is None else {"p": Peer("p", "h:2181:/hbase", *given)}
    survey = surveyed(now, 600, WalStore("file:///nowhere"), [OldWal(NAME, 1 << 20, now - 48 * 3600, True)], [queue], peers)
    (finding,) = exceeded(survey, OldWalLimits(1000, 24, 1))
    assert finding.line.startswith("peer p: old-wals: it holds 1 WALs in oldWALs")
    assert f"; shipped by {shipped_by}. " in finding.line
    assert finding.line.endswith(_ADVICE[shipped_by])
