"""Finds the age of a WAL group's oldest edit that is not shipped, while no WAL is being read."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from walferry.hbase.files.store import WalStore
from walferry.hbase.files.systems import OpenWal
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.wal_batches import UnwrapKey
from walferry.shipping.candidates import Candidate

log = logging.getLogger(__name__)

PEEK_BYTES = 64 << 10


def first_written(store: WalStore, wals: Sequence[Candidate], unwrap_key: UnwrapKey | None) -> int:
    """Return the write time of the first entry behind the registered positions; 0, and no error, if it cannot be found out."""
    try:
        for wal in wals:
            location = store.locate(wal.queued.name, wal.dead_servers)
            if location is None:
                break
            with store.open(location) as file:
                written = written_behind(file, location.url, wal.queued.position, unwrap_key)
            if written is not None:
                return written
    except Exception as error:  # shipping reads the file too, and reports what is wrong with it
        log.info("the write time of the oldest edit cannot be looked up: %s", error)
    return 0


def written_behind(file: OpenWal, url: str, position: int, unwrap_key: UnwrapKey | None) -> int | None:
    """Return the write time of the first entry behind a position; None if there is none. Raises WalError, StoreError, OSError."""
    for batch in read_wal_batches(file, url, position, wal_batch_bytes=PEEK_BYTES, partial_tail="stop", unwrap_key=unwrap_key):
        return int(batch.index.write_time[0])
    return None
