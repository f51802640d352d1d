"""Drives HBase's own Java client from Python, so that Walferry is not checked by itself.

with ClientJvm(folder) as jvm:
    source = jvm.client(cluster.address)
    source.create_table("t", {"f": GLOBAL})
    source.write("t", [wire.put("row", {"f:q": b"value"})])
    assert source.compare("t", jvm.client(other.address)).same
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from embedded.hbase import ClusterAddress
from embedded.jars import py4j_jar
from embedded.processes import JavaProcess, start_java, wait_until
from embedded.wire import Cell, Mutation, WalEntry, decode_cells, decode_wal_entries, encode_mutations

LOCAL, GLOBAL = 0, 1  # scopes of a family
START_TIMEOUT_SECONDS = 60
CALL_TIMEOUT_SECONDS = 900
LISTENS = "gateway listens on port "


class JavaClientError(RuntimeError):
    """HBase's Java client threw an exception. The message is Java's, with its stack trace."""


@dataclass(frozen=True)
class Region:
    encoded_name: str
    server: str
    start_key: bytes
    end_key: bytes


@dataclass(frozen=True)
class PeerDescription:
    id: str
    enabled: bool
    cluster_key: str
    configuration: Mapping[str, str]
    replicate_all: bool
    serial: bool


@dataclass(frozen=True)
class Comparison:
    """The differences of two tables, in cells. `examples` describe the first ones."""

    left: int
    right: int
    different: int
    examples: tuple[str, ...]

    @property
    def same(self) -> bool:
        return self.different == 0


@dataclass(frozen=True)
class LoadStatus:
    """The state of a WriteLoad: acknowledged puts, puts that the client gave up, their first errors, and the longest put."""

    acknowledged: int
    failed: int
    longest_ms: int
    errors: tuple[str, ...]


class WriteLoad:
    """Threads in the client's JVM that put rows until `stop`, which waits for the puts under way. See java/WriteLoad.java."""

    def __init__(self, load: Any) -> None:
        self._load = load

    def status(self) -> LoadStatus:
        found = json.loads(_call(self._load.statusJson))
        return LoadStatus(found["acknowledged"], found["failed"], found["longest_ms"], tuple(found["errors"]))

    def stop(self) -> LoadStatus:
        _call(self._load.stop)
        return self.status()

    def missing(self, other: JavaClient, table: str) -> tuple[int, tuple[str, ...]]:
        """Return how many acknowledged puts another cluster's table lacks, and the first of them."""
        found = json.loads(_call(self._load.missingJson, other._client, table))
        return found["missing"], tuple(found["examples"])


class ClientJvm:
    """One JVM with HBase's client for any number of clusters, under `folder`. It ends with this process."""

    def __init__(self, folder: Path, *, heap: str = "1g", classpath: Sequence[Path] = (), options: Sequence[str] = ()) -> None:
        self._folder = folder
        self._clients: dict[ClusterAddress, JavaClient] = {}
        self._lock = threading.Lock()
        token = secrets.token_hex(16)
        self._process: JavaProcess = start_java(
            "client",
            "walferry.embedded.ClientGateway",
            folder=folder,
            classpath=[py4j_jar(), *classpath],
            heap=heap,
            options=["-XX:+UseSerialGC", *options],
            environment={"WALFERRY_GATEWAY_TOKEN": token},
        )
        wait_until(
            lambda: LISTENS in self._process.log_text(),
            "the Java client listens",
            processes=[self._process],
            timeout=START_TIMEOUT_SECONDS,
        )
        port = int(self._process.log_text().split(LISTENS)[1].split()[0])
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                address="127.0.0.1",
                port=port,
                auth_token=token,
                auto_convert=True,
                read_timeout=CALL_TIMEOUT_SECONDS,
                # Otherwise finalizers of Python's garbage collector would call the JVM at any moment. Only a few small lists stay
                # behind in the JVM: results come as bytes and text.
                enable_memory_management=False,
            )
        )

    def client(self, address: ClusterAddress) -> JavaClient:
        """Return the client of a cluster, always the same one for an address."""
        with self._lock:
            if address not in self._clients:
                self._clients[address] = JavaClient(self._gateway.jvm.walferry.embedded, address, self._folder, self._process.pid)
            return self._clients[address]

    @property
    def java(self) -> Any:
        """The packages of the JVM, as py4j shows them."""
        return self._gateway.jvm

    def close(self) -> None:
        self._gateway.shutdown()
        self._process.kill()

    def __enter__(self) -> ClientJvm:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class JavaClient:
    """One cluster through HBase's Java client, which runs in the process `pid`. Java exceptions become JavaClientError."""

    def __init__(self, java: Any, address: ClusterAddress, folder: Path, pid: int) -> None:
        self.address = address
        self.pid = pid
        self._java = java
        self._folder = folder
        self._client = _call(java.ClusterClient, str(address.hbase_site))

    # Tables

    def create_table(
        self, name: str, scopes: Mapping[str, int], splits: Sequence[bytes] = (), *, versions: int = 1, async_wal: bool = False
    ) -> None:
        """Create a table. `scopes` maps families to LOCAL or GLOBAL; with `async_wal` writes do not wait for the WAL's sync."""
        _call(self._client.createTable, name, dict(scopes), list(splits), versions, async_wal)

    def alter_family(self, table: str, family: str, attributes: Mapping[str, str]) -> None:
        """Set attributes of a family, such as TTL, by their names in HBase's shell."""
        _call(self._client.alterFamily, table, family, dict(attributes))

    def alter_table(self, table: str, attributes: Mapping[str, str]) -> None:
        """Set attributes of a table, such as READONLY or coprocessor$1, by their names in HBase's shell."""
        _call(self._client.alterTable, table, dict(attributes))

    def disable_table(self, name: str) -> None:
        _call(self._client.disableTable, name)

    def switch_compaction(self, table: str, on: bool) -> None:
        """Switch compactions of a table on or off."""
        _call(self._client.switchCompaction, table, on)

    def describe(self, table: str) -> str:
        """Return a table's schema as HBase prints it."""
        return str(_call(self._client.describe, table))

    def clone_table(self, table: str, clone: str) -> None:
        """Make a table of links to the files of another table."""
        _call(self._client.cloneTable, table, clone)

    def create_namespace(self, name: str) -> None:
        _call(self._client.createNamespace, name)

    def drop_table(self, name: str) -> None:
        _call(self._client.dropTable, name)

    def drop_family(self, table: str, family: str) -> None:
        _call(self._client.dropFamily, table, family)

    def table_exists(self, name: str) -> bool:
        return bool(_call(self._client.tableExists, name))

    def empty_table(self, name: str) -> None:
        """Truncate a table, but keep its regions' borders."""
        _call(self._client.emptyTable, name)

    def flush(self, name: str) -> None:
        _call(self._client.flush, name)

    def major_compact(self, name: str) -> None:
        """Ask for a major compaction, which goes on in the background."""
        _call(self._client.majorCompact, name)

    # Servers and regions

    def region_servers(self) -> list[str]:
        """Return the live RegionServers as `host,port,startcode`, sorted."""
        return [str(server) for server in _call(self._client.regionServers)]

    def roll_wals(self) -> None:
        """Begin new WALs on all RegionServers, and wait until all earlier writes lie in closed files."""
        _call(self._client.rollWals)

    def switch_balancer(self, on: bool) -> None:
        _call(self._client.switchBalancer, on)

    def regions(self, table: str) -> list[Region]:
        return [
            Region(r["encoded_name"], r["server"], bytes.fromhex(r["start_key"]), bytes.fromhex(r["end_key"]))
            for r in json.loads(_call(self._client.regionsJson, table))
        ]

    def move_region(self, encoded_name: str, server: str) -> None:
        _call(self._client.moveRegion, encoded_name, server)

    def split_region(self, encoded_name: str, row: bytes) -> None:
        """Split a region at a row, and wait until both daughters are open."""
        _call(self._client.splitRegion, encoded_name, row)

    def merge_regions(self, one: str, other: str) -> None:
        """Merge two neighbouring regions, and wait until the merged one is open."""
        _call(self._client.mergeRegions, one, other)

    # Data

    def write(self, table: str, mutations: Iterable[Mutation], *, one_by_one: bool = False) -> int:
        """Apply mutations (see embedded.wire) in their order, and return their number.

        By default one call sends 1000 of them, and each region gets one WAL entry for a call. `one_by_one` makes a call for each.
        """
        return int(_call(self._client.write, table, encode_mutations(mutations), one_by_one))

    def bulk_load(self, table: str, puts: Iterable[Mutation], folder: str) -> None:
        """Write puts into HFiles, one for each family, and bulk-load them. `folder` is a URL that the servers can reach."""
        _call(self._java.BulkLoad.load, self._client, table, encode_mutations(puts), folder)

    def write_files(self, puts: Iterable[Mutation], folder: str) -> str:
        """Write puts into HFiles below `folder`, for `load_files`. Returns the URL of their folder."""
        return str(_call(self._java.BulkLoad.writeFiles, self._client, encode_mutations(puts), folder))

    def load_files(self, table: str, folder: str) -> None:
        """Bulk-load the HFiles in `folder`/<family>, which HBase moves away. `folder` is a URL that the servers can reach."""
        _call(self._java.BulkLoad.loadFiles, self._client, table, folder)

    def put_many(
        self,
        table: str,
        rows: int,
        columns: Sequence[str],
        *,
        first: int = 0,
        value_bytes: int = 100,
        batch: int = 1000,
        threads: int = 2,
    ) -> None:
        """Put rows number `first` … `first + rows - 1`, made in Java. Their keys have 16 hexadecimal digits (`even_splits`)."""
        _call(self._java.BulkWriter.putMany, self._client, table, first, rows, list(columns), value_bytes, batch, threads)

    def start_load(self, table: str, *, threads: int = 6, value_bytes: int = 200, pause_ms: int = 5) -> WriteLoad:
        """Start puts to family f of a table, one row in each call, until `stop`. Puts survive the death of a RegionServer."""
        return WriteLoad(_call(self._java.WriteLoad, self._client, table, threads, value_bytes, pause_ms))

    def scan_all(self, table: str, families: Sequence[str] = (), *, raw: bool = False) -> list[Cell]:
        """Return every version of every cell, in HBase's order. `raw` adds deleted cells and the delete markers.

        This is for tables up to 64 MB; `compare` and `count_rows` take any size.
        """
        return decode_cells(bytes(_call(self._client.scanCells, table, list(families), raw)))

    # Visibility labels, on clusters with the VisibilityController

    def add_labels(self, labels: Sequence[str]) -> None:
        """Add labels, which get the next ordinals in this order."""
        _call(self._java.Labels.add, self._client, list(labels))

    def set_auths(self, user: str, labels: Sequence[str]) -> None:
        _call(self._java.Labels.setAuths, self._client, user, list(labels))

    def scan_as(self, user: str, table: str) -> list[Cell]:
        """Return the cells that a user can see with their labels. The user must not be a superuser."""
        return decode_cells(bytes(_call(self._java.Labels.scanAs, self._client, user, table)))

    def count_rows(self, table: str) -> int:
        return int(_call(self._client.countRows, table))

    def _require_same_jvm(self, other: JavaClient) -> None:
        """Raise ValueError for a client of another JVM: its objects would be mistaken for this JVM's with the same numbers."""
        if other._java._gateway_client is not self._java._gateway_client:
            raise ValueError(f"the clients of {self.address.quorum} and {other.address.quorum} are in two JVMs: ask one for both")

    def compare(
        self,
        table: str,
        other: JavaClient,
        *,
        other_table: str | None = None,
        families: Sequence[str] = (),
        raw: bool = False,
        examples: int = 20,
    ) -> Comparison:
        """Compare all versions cell by cell, with timestamps, types, values and tags, in Java. Empty `families` mean all.

        Raises ValueError for a client of another JVM.
        """
        self._require_same_jvm(other)
        found = json.loads(
            _call(
                self._java.Comparison.compareJson,
                self._client,
                table,
                other._client,
                other_table or table,
                list(families),
                raw,
                examples,
            )
        )
        return Comparison(found["left"], found["right"], found["different"], tuple(found["examples"]))

    def verify_replication(self, table: str, peer: str, families: Sequence[str] = ()) -> dict[str, int]:
        """Run HBase's VerifyReplication against a peer (its id or a cluster key). Returns its counters, such as GOODROWS."""
        folder = str(self._folder / "verify")
        counters: dict[str, int] = json.loads(
            _call(self._java.Verification.verifyJson, self._client, peer, table, ",".join(families), folder)
        )
        return counters

    def export_snapshot(self, table: str, other: JavaClient, snapshot: str) -> None:
        """Copy a table to another cluster with HBase's ExportSnapshot, and clone it there."""
        self._require_same_jvm(other)
        folder = str(self._folder / "copies")
        _call(self._java.CopyTools.exportSnapshot, self._client, table, other._client, snapshot, folder)

    def copy_table(self, table: str, cluster_key: str) -> None:
        """Copy a table's rows with HBase's CopyTable to the table of the same name on another cluster."""
        _call(self._java.CopyTools.copyTable, self._client, table, cluster_key, str(self._folder / "copies"))

    # Peers

    def add_peer(
        self,
        peer_id: str,
        cluster_key: str,
        *,
        enabled: bool = True,
        configuration: Mapping[str, str] | None = None,
        table_families: Mapping[str, Sequence[str]] | None = None,
        serial: bool = False,
    ) -> None:
        """Add a peer. `table_families` maps tables to families; an empty list means all of them, None all user tables."""
        tables = None if table_families is None else {table: list(families) for table, families in table_families.items()}
        _call(self._java.Peers.add, self._client, peer_id, cluster_key, enabled, dict(configuration or {}), tables, serial)

    def add_managed_peer(self, peer_id: str, cluster_key: str) -> None:
        """Add a managed peer: DISABLED, marked `walferry.managed=true`."""
        self.add_peer(peer_id, cluster_key, enabled=False, configuration={"walferry.managed": "true"})

    def put_peer_configuration(self, peer_id: str, configuration: Mapping[str, str]) -> None:
        _call(self._java.Peers.putConfiguration, self._client, peer_id, dict(configuration))

    def enable_peer(self, peer_id: str) -> None:
        _call(self._java.Peers.enable, self._client, peer_id)

    def disable_peer(self, peer_id: str) -> None:
        _call(self._java.Peers.disable, self._client, peer_id)

    def remove_peer(self, peer_id: str) -> None:
        _call(self._java.Peers.remove, self._client, peer_id)

    def list_peers(self) -> list[PeerDescription]:
        return [PeerDescription(**peer) for peer in json.loads(_call(self._java.Peers.listJson, self._client))]

    # WAL files

    def wal_pretty_print(self, path: str) -> list[dict[str, Any]]:
        """Return the entries of HBase's WALPrettyPrinter: `table` (its name), `region`, `sequence`, `position` (after the entry)
        and `actions`, a dict for each cell: `row`, `family`, `qualifier`, `timestamp`, `type`, `vlen`, `value`, `tag` (if any).

        Rows, families, qualifiers and values have the format of Bytes.toStringBinary; `read_wal` returns the bytes themselves.
        """
        return _pretty_entries(str(_call(self._java.WalFiles.prettyPrint, self._client, path)))

    def read_wal(self, path: str) -> list[WalEntry]:
        """Return all entries of the file, read by HBase's own WAL reader."""
        return decode_wal_entries(bytes(_call(self._java.WalFiles.read, self._client, path)))

    def seconds_to_iterate_wal(self, path: str, repetitions: int) -> list[float]:
        """Return the seconds for each of `repetitions` reads of the file by HBase's own reader in one JVM. The first are cold."""
        return [float(seconds) for seconds in _call(self._java.WalFiles.secondsToIterate, self._client, path, repetitions)]


def _call(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Py4JJavaError as error:
        # py4j fetches the error's text from the JVM only when it is printed; by then the JVM may be gone.
        raise JavaClientError(str(error)) from None
    except Py4JNetworkError as error:
        raise JavaClientError(f"the JVM of the Java client does not answer, see its log client.log: {error}") from None


def even_splits(regions: int) -> list[bytes]:
    """Return borders that spread the rows of `put_many` evenly over `regions` regions."""
    return [f"{(i << 64) // regions:016x}".encode() for i in range(1, regions)]


def _pretty_entries(printed: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder()
    entries: list[dict[str, Any]] = []
    at = printed.find("[") + 1
    while (at := printed.find("{", at)) >= 0:
        entry, at = decoder.raw_decode(printed, at)
        # Lines of plain text stand between the entries.
        position = printed.index("position: ", at) + len("position: ")
        entry["position"] = int(printed[position : printed.index("\n", position)])
        # The printer writes numbers as text, and table names as all of their fields.
        entry["sequence"] = int(entry["sequence"])
        entry["table"] = entry["table"]["nameAsString"]
        for action in entry["actions"]:
            action["timestamp"] = int(action["timestamp"])
        entries.append(entry)
        at = position
    return entries
