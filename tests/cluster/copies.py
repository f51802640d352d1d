"""Initial snapshots of a peer between two real clusters, run in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from embedded import wire
from embedded.client import GLOBAL, LOCAL
from tests.cluster.conftest import Sides
from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import master
from walferry.initial_snapshot.beginning import Copied
from walferry.initial_snapshot.job import CopyRun, Spread, initial_snapshot
from walferry.initial_snapshot.region_copy import RegionOutcome, RegionTask, copy_regions
from walferry.replication.source.session import open_session

MIXED = (
    wire.put("r1", {"f:q": b"v1", "f:p": b"x"}, timestamp=10),
    wire.put("r1", {"f:q": b"v2"}, timestamp=20),
    wire.delete_version("r1", "f:q", timestamp=20),
    wire.put("r2", {"f:q": b"gone"}, timestamp=10),
    wire.delete_row("r2", timestamp=15),
    wire.put("r7", {"f:q": b"big" * 1000}, timestamp=10),
    wire.put("r7", {"f:q": b"once more"}, timestamp=10),
    wire.put("r8", {"f:q": b"v"}, timestamp=10),
    wire.delete_family("r8", "f", timestamp=5),
)


class Copies:
    """Runs initial snapshots of a peer in this process."""

    def __init__(self, sides: Sides, peer: str) -> None:
        self.sides, self.peer = sides, peer
        self.said: list[str] = []

    def request(self, *tables: str, run: str = "run", **options: object) -> CopyRun:
        return CopyRun(
            source=self.sides.at,
            peer_id=self.peer,
            run_id=run,
            tables=tables,
            **options,  # type: ignore[arg-type]
        )

    def run(self, *tables: str, spread: Spread | None = None, **options: object) -> Copied:
        return initial_snapshot(self.request(*tables, **options), spread or self.spread, self.said.append)

    def spread(self, tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        with ThreadPoolExecutor(3) as pool:
            parts = pool.map(lambda first: list(copy_regions(self.sides.at, self.peer, tasks[first::3])), range(3))
            return [outcome for part in parts for outcome in part]

    def snapshots(self) -> list[str]:
        with open_session(self.sides.at) as session, master.connect(active_master(session.zk, session.nodes)) as source:
            return master.completed_snapshots(source)


@pytest.fixture
def copies(sides: Sides, peer: str) -> Copies:
    return Copies(sides, peer)


@pytest.fixture
def source_table(sides: Sides, unique: Callable[[str], str]) -> Callable[..., str]:
    """`source_table({"f": GLOBAL})` → name of a new table that only the source has."""

    def create(scopes: dict[str, int] | None = None, splits: Sequence[bytes] = (), **options: object) -> str:
        name = unique("t")
        sides.source.create_table(name, scopes or {"f": GLOBAL, "l": LOCAL}, splits, **options)  # type: ignore[arg-type]
        return name

    return create
