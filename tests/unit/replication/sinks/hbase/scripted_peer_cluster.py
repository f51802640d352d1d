"""A peer cluster whose RegionServers know Multi: regions that move, split and merge, results with errors, servers that die."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tests.unit.hbase.rpc.fake_server import FakeServer, Request, answer
from tests.unit.replication.sinks.hbase.multi_messages import MultiRequest, MultiResponse
from walferry.hbase.names import ServerName
from walferry.hbase.tables.errors import MissingTable
from walferry.hbase.tables.regions import Region
from walferry.hbase.wal.cells import Cell, split_cells

HBASE = "org.apache.hadoop.hbase."
NOT_SERVING = HBASE + "NotServingRegionException"
SANITY = HBASE + "exceptions.FailedSanityCheckException"
WRONG_REGION = "Requested row out of range for doMiniBatchMutation on HRegion t"

Reply = str | None
"""The class of an exception, with its text after a space; None: carried out."""


@dataclass
class OpenRegion:
    """A region, and the server that has it: its number, or None."""

    table: bytes
    start: bytes
    end: bytes
    server: int | None

    @property
    def name(self) -> bytes:
        return b"%s,%s,%s.x." % (self.table, self.start, self.end)

    def has(self, row: bytes) -> bool:
        return self.start <= row and (not self.end or row < self.end)


@dataclass
class ScriptedPeerCluster:
    """Its regions are in `regions`; what hbase:meta says of them is `told`, which `tell` brings up to date.

    `before(server number, request)` is called before each Multi is carried out. `judge(region, row)` may let single actions fail.
    """

    servers: int = 2
    regions: list[OpenRegion] = field(default_factory=list)
    before: Callable[[int, Any], None] = lambda server, request: None
    judge: Callable[[OpenRegion, bytes], Reply] = lambda region, row: None
    reply: Callable[[int, Request], bytes | None] = lambda server, request: None  # in place of carrying it out
    reported: list[Region] = field(default_factory=list)
    lookups: int = 0
    multis: list[tuple[int, Any]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    cells: dict[tuple[bytes, bytes], list[Cell]] = field(default_factory=dict)  # by table and row, as they were carried out

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._dead: set[int] = set()
        self.hosts = [FakeServer(self._behaviour(i)) for i in range(self.servers)]
        self.tell()

    def __enter__(self) -> ScriptedPeerCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for server in range(self.servers):
            self.kill(server)

    def kill(self, server: int) -> None:
        """Let a server be gone. Its regions stay where they are until they are moved."""
        if server not in self._dead:
            self._dead.add(server)
            self.hosts[server].close()

    def name(self, server: int) -> ServerName:
        """The name of a server."""
        return ServerName(self.hosts[server].host, self.hosts[server].port, 1)

    def tell(self) -> None:
        """Let hbase:meta say where the regions are now."""
        with self._lock:
            self.reported = [
                Region(r.name, r.start, r.end, None if r.server is None else self.name(r.server))
                for r in sorted(self.regions, key=lambda r: (r.table, r.start))
            ]

    # What Tables has for Locations.

    def regions_of(self, table: str) -> list[Region]:
        """The regions of a table, as hbase:meta tells them."""
        with self._lock:
            self.lookups += 1
            found = [region for region in self.reported if region.name.startswith(table.encode() + b",")]
        if not found:
            raise MissingTable(table, "zk1:2181")
        return found

    def as_tables(self) -> Any:
        """This peer cluster in the place of walferry.hbase.tables.Tables."""
        peer_cluster = self

        class Tables:
            def regions(self, table: str, seconds: Callable[[], float]) -> list[Region]:
                return peer_cluster.regions_of(table)

            def interrupt(self) -> None: ...

            def close(self) -> None: ...

        return Tables()

    def latest(self) -> dict[tuple[bytes, bytes], dict[bytes, bytes]]:
        """The last value that was written under each key, by table and row."""
        return {
            at: {cell.data[12 : 12 + int.from_bytes(cell.data[4:8])]: cell.value for cell in cells}
            for at, cells in self.cells.items()
        }

    def _behaviour(self, server: int) -> Callable[[Request], bytes]:
        def behave(request: Request) -> bytes:
            if (said := self.reply(server, request)) is not None:
                return said
            if request.header.method_name != "Multi":
                return answer(request)
            message = MultiRequest.FromString(request.param)
            self.before(server, message)
            with self._lock:
                self.requests.append(request)
                self.multis.append((server, message))
                return answer(request, self._carry_out(server, message, request.cells).SerializeToString())

        return behave

    def _carry_out(self, server: int, message: Any, block: bytes) -> Any:
        cells = split_cells(block)
        response = MultiResponse()
        for asked in message.regionAction:
            result = response.regionActionResult.add()
            mutations = [[next(cells) for _ in range(a.mutation.associated_cell_count)] for a in asked.action]
            assert len({tuple((x.name, x.value) for x in a.mutation.attribute) for a in asked.action}) == 1
            region = next((r for r in self.regions if r.name == asked.region.value and r.server == server), None)
            if region is None:
                result.exception.name, result.exception.value = NOT_SERVING, f"{NOT_SERVING}: not here".encode()
                continue
            for action, mutation in zip(asked.action, mutations, strict=True):
                (row,) = {cell.row for cell in mutation}
                _say(result.resultOrException.add(index=action.index), self._write(region, row, mutation))
        assert next(cells, None) is None
        return response

    def _write(self, region: OpenRegion, row: bytes, mutation: list[Cell]) -> Reply:
        if not region.has(row):
            return f"{SANITY} {WRONG_REGION}"
        said = self.judge(region, row)
        if said is None:
            self.cells.setdefault((region.table, row), []).extend(mutation)
        return said


def _say(result: Any, said: Reply) -> None:
    if said is None:
        result.result.SetInParent()
        return
    name, _, text = said.partition(" ")
    result.exception.name, result.exception.value = name, f"{name}: {text}\n\tat org.example.Server".encode()
