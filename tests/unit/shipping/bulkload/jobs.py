"""Loads for tests: of WALs of local files, into tables that a peer cluster might have."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.unit.replication.filters.test_entry_filter import RULES
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.names import ServerName
from walferry.hbase.tables.regions import Region
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.targets import Target, Targets
from walferry.shipping.bulkload.wals import LoadWal

SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase")
SERVER = ServerName("rs", 16020, 1)


def target(table: bytes, families: Sequence[bytes] = (b"f",), starts: Sequence[bytes] = (b"", b"m")) -> Target:
    regions = [
        Region(b"%s,%s,1.%s." % (table, start, f"{table.decode()}-{number}".encode()), start, end, SERVER)
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], b""], strict=True))
    ]
    return Target(dict.fromkeys(families, FileSettings()), tuple(regions))


def targets(*tables: bytes, unfit: Mapping[bytes, str] | None = None) -> Targets:
    return Targets({table: target(table) for table in tables}, unfit or {}, ())


def job(tables: Targets | None = None, *, source: SourceCluster = SOURCE, **fields: Any) -> LoadJob:
    made = LoadJob(
        source=source, peer_id="p", record=f"/{uuid.uuid4()}", rules=RULES, targets=tables or targets(b"t", b"u"),
        deadline=time.time() + 3600, peer_state=("/hbase/replication/peers/p/peer-state", 1),
    )  # fmt: skip
    return replace(made, **fields)


def groups_of(*counts: int) -> list[list[LoadWal]]:
    """Groups of so many WALs, numbered over all of them."""
    groups, start = [], 0
    for group, count in enumerate(counts):
        end = start + count
        groups.append(
            [LoadWal(number, end, f"rs-{group}%2C1%2C1.{number}", 0, 100, (), live=False) for number in range(start, end)]
        )
        start = end
    return groups
