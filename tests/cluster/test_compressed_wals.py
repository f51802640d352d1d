"""WALs that real HBase wrote with each kind of compression: decoded as HBase does, and replicated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.client import GLOBAL, ClientJvm
from embedded.jars import codec_classpath
from embedded.standalone import StandaloneCluster
from embedded.wire import put
from tests.cluster.decoding import compare_with_pretty_printer, compare_with_reader, copies_of_closed_wals, write_all_kinds
from tests.cluster.walferry_runs import roll, ship, source_of
from walferry.engine.summary import Status
from walferry.hbase.files.systems import open_wal
from walferry.hbase.wal.header import parse_header
from walferry.hbase.wal.reader import read_wal_batches

WAL = "hbase.regionserver.wal"
DICTIONARIES = {f"{WAL}.enablecompression": "true"}
NO_TAGS = {f"{WAL}.tags.enablecompression": "false"}
CLASSIC_WRITER = {"hbase.wal.provider": "filesystem"}
ASYNC_WRITER = {"hbase.wal.provider": "asyncfs", "hbase.wal.async.use-shared-event-loop": "true"}


def values(codec: str) -> dict[str, str]:
    own = {
        "lz4": "aircompressor.Lz4Codec",
        "snappy-air": "aircompressor.SnappyCodec",
        "zstd": "zstd.ZstdCodec",
        "zstd-air": "aircompressor.ZstdCodec",
    }.get(codec)
    name = codec.partition("-")[0]
    setting = {f"hbase.io.compress.{name}.codec": f"org.apache.hadoop.hbase.io.compress.{own}"} if own else {}
    return {f"{WAL}.value.enablecompression": "true", f"{WAL}.value.compression.type": name, **setting}


CONFIGURATIONS = {
    "dictionaries": {**NO_TAGS, **CLASSIC_WRITER},
    "tags and GZ": values("gz"),
    "SNAPPY": {**values("snappy"), **NO_TAGS},
    "SNAPPY by aircompressor": values("snappy-air"),
    "LZ4": values("lz4"),
    "ZSTD": {**values("zstd"), **CLASSIC_WRITER},
    "ZSTD by aircompressor": values("zstd-air"),
}
ALWAYS = ("tags and GZ", "ZSTD")  # the others take as long, and run as soak tests
ROWS = 3000


def configured(name: str) -> object:
    return pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.soak])


@pytest.fixture(scope="module", params=[configured(name) for name in CONFIGURATIONS])
def source(request: pytest.FixtureRequest, cluster_folder: Path) -> Iterator[tuple[StandaloneCluster, ClientJvm]]:
    """A cluster that writes its WALs in this way, and clients that can read them."""
    folder = cluster_folder / f"compressed-{request.param.replace(' ', '-')}"
    conf, codecs = {**DICTIONARIES, **CONFIGURATIONS[request.param]}, codec_classpath()
    with (
        StandaloneCluster(folder, conf, name="compressed", classpath=codecs) as cluster,
        # HBase takes the codecs' classes from the configuration on the class path only.
        ClientJvm(folder / "client", classpath=[*codecs, cluster.address.hbase_site.parent]) as jvm,
    ):
        yield cluster, jvm


@pytest.mark.timeout(900)
def test_all_kinds_of_edits_are_decoded_and_replicated(
    source: tuple[StandaloneCluster, ClientJvm], standalone_pair, unique: Callable[[str], str], tmp_path: Path
) -> None:
    cluster, jvm = source
    client, peer_cluster = (jvm.client(each.address) for each in (cluster, standalone_pair.peer_cluster))
    table, peer = unique("t"), unique("peer")
    for side in (client, peer_cluster):
        side.create_table(table, {"f": GLOBAL})
    client.add_managed_peer(peer, standalone_pair.peer_cluster.address.cluster_key)
    write_all_kinds(client)
    client.put_many(table, ROWS, ["f:a", "f:b"], value_bytes=200)
    tagged = [put(f"tagged{i}", {"f:q": b"v" * i}, tags=[(70, b"t%d" % (i % 7))]) for i in range(300)]
    client.write(table, tagged)  # one by one, HBase would drop their tags
    for name in ("decoded", "decoding:other"):  # the peer cluster has the tables of another configuration
        if peer_cluster.table_exists(name):
            peer_cluster.drop_table(name)
        elif ":" in name:
            peer_cluster.create_namespace("decoding")
        peer_cluster.create_table(name, {"f": GLOBAL}, versions=3)
    at = source_of(cluster.address)
    roll(at, peer)
    root = Path(cluster.address.wal_root.removeprefix("file://"))
    closed = copies_of_closed_wals(root, tmp_path / "wals")
    for url in closed:
        with open_wal(url) as file:
            assert parse_header(bytes(file.read_at(0, file.size)), url).compression is not None
    compare_with_pretty_printer(client, closed)
    assert compare_with_reader(client, closed) > 2 * ROWS
    check_resuming(max(closed, key=lambda url: Path(url.removeprefix("file://")).stat().st_size))

    summaries = ship(at, peer)
    assert {summary.status for summary in summaries} == {Status.DONE}, [summary.error for summary in summaries]
    for name in (table, "decoding:other"):
        assert client.compare(name, peer_cluster).same
    assert client.compare("decoded", peer_cluster, families=["f"]).same


def check_resuming(url: str) -> None:
    """Check that reading from several positions gives the same entries as reading the whole file."""
    with open_wal(url) as file:
        whole = [int(p) for wal_batch in read_wal_batches(file, url, 0, partial_tail="error") for p in wal_batch.positions]
        for first in range(0, len(whole), max(1, len(whole) // 7)):
            wal_batches = read_wal_batches(file, url, whole[first], wal_batch_bytes=50_000, partial_tail="error")
            assert [int(p) for wal_batch in wal_batches for p in wal_batch.positions] == whole[first:]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_dictionaries_past_their_capacity_are_hbase_s(cluster_folder: Path, tmp_path: Path) -> None:
    """120,000 distinct rows and tags, 300 qualifiers, with some that come again after they have been forgotten."""
    conf = {**DICTIONARIES, **values("snappy")}
    with StandaloneCluster(cluster_folder / "full", conf, name="full") as cluster, ClientJvm(cluster_folder / "full-c") as jvm:
        client = jvm.client(cluster.address)
        client.create_table("full", {f"f{i}": GLOBAL for i in range(3)})
        for batch in range(12):
            rows = [*range(batch * 10_000, batch * 10_000 + 10_000), *range(0, 10_000, 50)]
            client.write(
                "full", [put(f"row{i}", {f"f{i % 3}:q{i % 300}": b"%d" % i}, tags=[(70, b"tag%d" % i), (71, b"t")]) for i in rows]
            )
        client.roll_wals()
        client.write("full", [put("after", {"f0:q": b"v"})])
        root = Path(cluster.address.wal_root.removeprefix("file://"))
        assert compare_with_reader(client, copies_of_closed_wals(root, tmp_path / "wals")) > 120_000
