"""A cluster whose RegionServers count the writes to their regions and roll, and whose Master describes the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from google.protobuf.message import Message

from tests.zk.hbase_znodes import HBaseZNodes, prefixed, wal
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import table_text
from walferry.hbase.rpc.master import table_message
from walferry.hbase.rpc.server import Caller, Method, RpcServer
from walferry.hbase.rpc.server_codec import CallRefused, JavaException
from walferry.hbase.values import PBUF

PEER = "p"


@dataclass
class CountingServer:
    """A RegionServer. `numbers` are each region's write requests, flushed sequence id and files."""

    name: str
    numbers: dict[str, list[int]] = field(default_factory=dict)
    rolls: int = 0
    asked: int = 0
    counts: bool = True  # otherwise it is older than the call
    rolls_refused: bool = False

    def write(self, table: str, writes: int = 1) -> None:
        self.numbers[f"{table},,1.e."][0] += writes


class RollingSite:
    """A cluster with the managed peer PEER, in which tables have the scopes of `tables`, by name."""

    def __init__(self, hbase: HBaseZNodes) -> None:
        self.hbase = hbase
        self.tables: dict[str, int] = {}
        self.servers: list[CountingServer] = []
        self.peers = [PEER]
        self.master_silent = False
        self._wals: defaultdict[str, int] = defaultdict(lambda: 1000)

    def add(self, server: CountingServer) -> CountingServer:
        self.servers.append(server)
        self.hbase.start_server(server.name)
        self.hbase.add_wal(server.name, PEER, wal(self._wals[server.name], server.name))
        return server

    @property
    def rolls(self) -> list[int]:
        return [server.rolls for server in self.servers]

    def methods_of(self, server: CountingServer) -> dict[str, Method]:
        roll = Method(pb.RollWALWriterRequest, partial(self._roll, server))
        loads = {"GetRegionLoad": Method(pb.GetRegionLoadRequest, partial(self._loads, server))}
        return {"RollWALWriter": roll, **(loads if server.counts else {})}

    def master_methods(self) -> dict[str, Method]:
        return {"GetTableDescriptors": Method(pb.GetTableDescriptorsRequest, self._describe)}

    def _roll(self, server: CountingServer, request: Message, caller: Caller) -> Message:
        if server.rolls_refused:
            raise CallRefused(JavaException.DO_NOT_RETRY, "the log roller hangs", do_not_retry=True)
        server.rolls += 1
        self.begin_wal(server)
        return pb.RollWALWriterResponse()

    def begin_wal(self, server: CountingServer) -> None:
        """Begin a new WAL for each peer, as the server also does without being asked."""
        self._wals[server.name] += 1
        for peer in self.peers:
            self.hbase.add_wal(server.name, peer, wal(self._wals[server.name], server.name))

    def _loads(self, server: CountingServer, request: Message, caller: Caller) -> Message:
        server.asked += 1
        answer = pb.GetRegionLoadResponse()
        for region, (writes, flushed, files) in server.numbers.items():
            load = answer.region_loads.add(write_requests_count=writes, complete_sequence_id=flushed, storefiles=files)
            load.region_specifier.type, load.region_specifier.value = pb.RegionSpecifier.REGION_NAME, region.encode()
        return answer

    def _describe(self, request: pb.GetTableDescriptorsRequest, caller: Caller) -> Message:
        if self.master_silent:
            raise CallRefused(JavaException.DO_NOT_RETRY, "the Master is initializing", do_not_retry=True)
        asked = {table_text(name) for name in request.table_names}
        answer = pb.GetTableDescriptorsResponse()
        for table, scope in self.tables.items():
            if not asked or table in asked:
                family = pb.ColumnFamilySchema(name=b"f")
                family.attributes.add(first=b"REPLICATION_SCOPE", second=b"%d" % scope)
                answer.table_schema.add(table_name=table_message(table), column_families=[family])
        return answer


@contextmanager
def rolling_site(hbase: HBaseZNodes, tables: Mapping[str, int], servers: int) -> Iterator[RollingSite]:
    """Each server serves one region of each of the `tables`, and of one of HBase's own."""
    site = RollingSite(hbase)
    site.tables |= tables
    for server in hbase.children(hbase.nodes.rs):
        hbase.stop_server(server)
    hbase.set_config(PEER, {"walferry.managed": "true"})
    with ExitStack() as running:
        for number in range(servers):
            server = CountingServer("", {f"{table},,1.e.": [0, 0, 0] for table in (*tables, "hbase:namespace")})
            rpc = running.enter_context(RpcServer({"AdminService": _Methods(site, server)}))
            server.name = f"127.0.0.1,{rpc.port},{1700000000001 + number}"
            site.add(server)
        rpc = running.enter_context(RpcServer({"MasterService": site.master_methods()}))
        name = pb.ServerName(host_name="127.0.0.1", port=rpc.port, start_code=1)
        hbase.zk.create(hbase.nodes.master, prefixed(PBUF + pb.Master(master=name).SerializeToString()))
        yield site


class _Methods(Mapping[str, Method]):
    """A server's methods, as they are when a call comes."""

    def __init__(self, site: RollingSite, server: CountingServer) -> None:
        self._site, self._server = site, server

    def __getitem__(self, name: str) -> Method:
        return self._site.methods_of(self._server)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._site.methods_of(self._server))

    def __len__(self) -> int:
        return len(self._site.methods_of(self._server))
