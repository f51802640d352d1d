"""Encrypted WALs of real HBase: decoded as HBase's own reader decodes them, and shipped. No secret appears on the way.

HBase's reader stops at the first cell with tags, even if it is only a TTL's (seen with 2.6.1; the same in the source of master):
its SecureWALCellCodec writes tags without the two bytes of their length, and reads them with these bytes. So shipped cells with
tags are compared with the table.
"""

from __future__ import annotations

import contextlib
import random
import re
import secrets
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from embedded import wire
from embedded.client import GLOBAL, LOCAL, ClientJvm, JavaClient, JavaClientError
from embedded.java import find_java
from embedded.standalone import StandaloneCluster
from tests.cluster.decoding import compare_with_pretty_printer, compare_with_reader, decode, is_closed, write_all_kinds
from tests.cluster.replaying import now, ship_again
from tests.cluster.spark_runs import Job
from tests.cluster.test_mixed_edits import edits
from tests.cluster.walferry_runs import is_untouched, positions, roll, ship_one, source_of
from walferry.base.protos.hbase_pb2 import WALHeader, WrappedKey
from walferry.engine.summary import Status
from walferry.hbase.files.systems import open_wal
from walferry.hbase.names import ServerName, parse_wal_name
from walferry.hbase.wal.errors import WalKeyError
from walferry.hbase.wal.header import MAX_HEADER_BYTES, parse_header
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replay.interval import Interval
from walferry.replication.source.cluster import SourceCluster

CRYPTO = "org.apache.hadoop.hbase.io.crypto"


@dataclass(frozen=True)
class Encrypted:
    """A cluster that encrypts its WALs."""

    cluster: StandaloneCluster
    source: SourceCluster
    password: str = field(repr=False)

    @property
    def settings(self) -> str:
        return self.cluster.address.hbase_site.read_text()


def make_key(store: Path, kind: str, alias: str, bits: int, password: str) -> None:
    """Make a key as HBase's book describes. The password goes through the environment, so that no argument list has it."""
    command = [find_java().with_name("keytool"), "-genseckey", "-keystore", store, "-storetype", kind, "-keyalg", "AES"]
    command += ["-keysize", str(bits), "-alias", alias, "-storepass:env", "STORE_PASSWORD", "-keypass:env", "STORE_PASSWORD"]
    subprocess.run(list(map(str, command)), env={"STORE_PASSWORD": password}, check=True, capture_output=True, timeout=60)


def async_writer(folder: Path, password: str) -> tuple[dict[str, str], str, tuple[str, ...]]:
    """Return HBase's settings, our key provider and key names: AsyncFSWAL, a JCEKS, a key for WALs and a master key."""
    store, passwords = folder / "keys.jceks", folder / "keys.passwords"
    make_key(store, "JCEKS", "hbase", 128, password)
    make_key(store, "JCEKS", "wals", 256, password)
    passwords.write_text(f"hbase={password}\nwals={password}\n")
    url = f"jceks://{store}?passwordFile={passwords}"
    settings = {
        "hbase.wal.provider": "asyncfs",
        "hbase.crypto.keyprovider.parameters": url,
        "hbase.crypto.master.key.name": "hbase",
        "hbase.crypto.wal.key.name": "wals",
    }
    return settings, url, ("wals", "hbase")


def classic_writer(folder: Path, password: str) -> tuple[dict[str, str], str, tuple[str, ...]]:
    """Return the same as `async_writer`, with FSHLog, PKCS12, Commons Crypto, another hash; compression is claimed, not done."""
    store = folder / "keys.p12"
    make_key(store, "PKCS12", "master", 128, password)
    settings = {
        "hbase.wal.provider": "filesystem",
        "hbase.crypto.keyprovider.parameters": f"pkcs12://{store}?password={password}",
        "hbase.crypto.master.key.name": "master",
        "hbase.crypto.cipherprovider": f"{CRYPTO}.CryptoCipherProvider",
        "hbase.crypto.key.hash.algorithm": "SHA-256",
        "hbase.regionserver.wal.enablecompression": "true",
    }
    return settings, f"pkcs12://{store}?passwordEnv=WALFERRY_TEST_STORE", ("master",)


@pytest.fixture(scope="module", params=[async_writer, classic_writer])
def encrypted(request: pytest.FixtureRequest, cluster_folder: Path) -> Iterator[Encrypted]:
    name, password = request.param.__name__, secrets.token_hex(12)
    folder = cluster_folder / name
    folder.mkdir()
    settings, url, names = request.param(folder, password)
    settings |= {"hbase.regionserver.wal.encryption": "true", "hbase.crypto.keyprovider": f"{CRYPTO}.KeyStoreKeyProvider"}
    with pytest.MonkeyPatch.context() as patch, StandaloneCluster(folder, settings, name=name) as cluster:
        patch.setenv("WALFERRY_TEST_STORE", password)
        yield Encrypted(cluster, replace(source_of(cluster.address), key_provider=url, key_names=names), password)


@pytest.fixture(scope="module")
def jvm(encrypted: Encrypted) -> Iterator[ClientJvm]:
    """Yield a JVM that has not yet encrypted in another way."""
    with ClientJvm(encrypted.cluster.folder / "client") as jvm:
        yield jvm


@pytest.fixture(scope="module")
def client(encrypted: Encrypted, jvm: ClientJvm) -> JavaClient:
    return jvm.client(encrypted.cluster.address)


@pytest.fixture
def table_and_peer(encrypted, client, standalone_pair, jvm, managed_peer, unique) -> tuple[str, str, JavaClient]:
    """A table on both sides, a managed peer to the peer cluster, and the peer cluster."""
    peer_cluster, table = jvm.client(standalone_pair.peer_cluster.address), unique("sealed")
    for side in (client, peer_cluster):
        side.create_table(table, {"f": GLOBAL, "g": GLOBAL, "l": LOCAL}, versions=10_000)
    client.roll_wals()
    return table, managed_peer(encrypted.cluster.address, standalone_pair.peer_cluster.address), peer_cluster


def test_edits_of_all_kinds_are_shipped(encrypted: Encrypted, client: JavaClient, table_and_peer: Any) -> None:
    table, peer, peer_cluster = table_and_peer
    for _ in range(2):
        client.write(table, edits(3_000, random.Random(table)))
        summary = ship_one(encrypted.source, peer)
        assert summary.status is Status.DONE, summary.error
        assert summary.shippedCells > 3_000
    assert client.compare(table, peer_cluster, families=["f", "g"], raw=True).same
    assert peer_cluster.scan_all(table, ["l"], raw=True) == []


def test_a_spark_job_ships_and_nobody_sees_a_secret(
    encrypted: Encrypted, client: JavaClient, table_and_peer: Any, tmp_path: Path
) -> None:
    table, peer, peer_cluster = table_and_peer
    client.put_many(table, 2_000, ["f:a", "l:b"], batch=100)
    roll(encrypted.source, peer)
    with Arguments() as arguments, Job(encrypted.source, peer, "sealed", tmp_path) as job:
        done = job.finish()
    assert done.code == 0, done.output
    assert client.compare(table, peer_cluster, families=["f"]).same
    assert any("run_job.py" in line for line in arguments.seen)
    # HBase's own configuration may contain the password, but no argument list may.
    assert not [line for line in arguments.seen if encrypted.password in line]
    assert encrypted.password not in done.output + encrypted.source.to_json() + repr(encrypted.source)


def test_without_its_key_a_queue_stops_before_the_first_edit_and_goes_on_with_it(
    encrypted: Encrypted, client: JavaClient, table_and_peer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, peer, peer_cluster = table_and_peer
    client.write(table, [wire.put("row", {"f:q": b"value"})])
    roll(encrypted.source, peer)
    before = positions(encrypted.source, peer)
    other = tmp_path / "other.jceks"
    make_key(other, "JCEKS", "hbase", 128, encrypted.password)
    (tmp_path / "right").write_text(f"hbase={encrypted.password}\n")
    (tmp_path / "wrong").write_text("hbase=wrong!\n")
    assert encrypted.source.key_provider
    own = encrypted.source.key_provider.partition("?")[0]
    wrong = {
        "no key provider is given": replace(encrypted.source, key_provider=None),
        "nothing.jceks: No such file": replace(
            encrypted.source, key_provider=f"jceks://{tmp_path}/nothing.jceks?passwordFile=/p"
        ),
        "there is no secret key 'absent' in it": replace(encrypted.source, key_names=("absent",)),
        "not wrapped with key 'hbase'": with_provider(encrypted, f"jceks://{other}?passwordFile={tmp_path}/right"),
        "the password for 'hbase' in": with_provider(encrypted, f"jceks://{other}?passwordFile={tmp_path}/wrong"),
        "WALFERRY_UNSET is not set": with_provider(encrypted, f"{own}?passwordEnv=WALFERRY_UNSET"),
    }
    for text, source in wrong.items():
        summary = ship_one(source, peer, roll_first=False)
        assert summary.status is Status.FAILED
        assert summary.error
        assert text in summary.error
        assert re.match(r"file:/\S+ at byte 0: the WAL is encrypted, and ", summary.error), summary.error
        assert encrypted.password not in summary.error
    assert is_untouched(before, positions(encrypted.source, peer))
    assert encrypted.password not in caplog.text
    assert "wrong!" not in caplog.text
    assert ship_one(encrypted.source, peer).status is Status.DONE
    assert client.compare(table, peer_cluster).same


def test_an_interval_of_encrypted_wals_is_shipped_again_with_their_key_only(
    encrypted: Encrypted, client: JavaClient, table_and_peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.replay.files.SLACK_MS", 5)
    table, peer, peer_cluster = table_and_peer
    start = now()
    client.put_many(table, 100, ["f:a", "l:b"], batch=10)
    interval = Interval(start, now())
    roll(encrypted.source, peer)
    (failed,) = ship_again(replace(encrypted.source, key_provider=None), peer, interval)
    assert failed.status is Status.FAILED
    assert "no key provider is given" in (failed.error or "")
    (done,) = ship_again(encrypted.source, peer, interval)
    assert done.status is Status.DONE, done.error
    assert done.tables[table][1] == 100
    assert client.compare(table, peer_cluster, families=["f"]).same
    (server,) = client.region_servers()
    whole = Interval(ServerName.parse(server).start_code, interval.end)
    with pytest.raises(WalKeyError, match="no key provider is given"):
        ship_again(replace(encrypted.source, key_provider=None), peer, whole, run_id="whole")


def with_provider(encrypted: Encrypted, url: str) -> SourceCluster:
    return replace(encrypted.source, key_provider=url, key_names=("hbase",))


def test_cells_with_tags_are_read_although_hbase_s_own_reader_stops_at_them(
    encrypted: Encrypted, client: JavaClient, table_and_peer: Any
) -> None:
    table, _, _ = table_and_peer
    puts = [wire.put(f"row{i:03}", {"f:q": b"x" * i}, tags=[(70, b"t" * (i % 40)), (71, b"")]) for i in range(300)]
    client.write(table, [*puts, wire.put("ttl", {"f:q": b"value"}, ttl_ms=86_400_000)])
    (url,) = [url for url in wal_urls(encrypted) if not is_closed(url) and not is_meta(url)]
    client.roll_wals()
    rows = [row for row in decode(url, unwrap_key=encrypted.source.keys()) if row["table"] == table]
    assert [(r["row"], r["family"], r["qualifier"], r["timestamp"], r["value"], r["tags"]) for r in rows] == [
        (c.row, c.family, c.qualifier, c.timestamp, c.value, c.tags) for c in client.scan_all(table)
    ]
    assert len(rows) == 301
    assert all(row["tags"] for row in rows)
    with pytest.raises(JavaClientError, match=r"EOF +while reading 301 WAL KVs"):
        client.read_wal(url)


class WithoutTags:
    """A client that leaves out cells with tags."""

    def __init__(self, client: JavaClient) -> None:
        self._client = client

    def write(self, table: str, mutations: Iterable[wire.Mutation], **options: Any) -> None:
        kept = [m for m in mutations if m.ttl_ms is None and not any(edit.tags for edit in m.edits)]
        self._client.write(table, kept, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.fixture(scope="module")
def wals(encrypted: Encrypted, client: JavaClient) -> list[str]:
    """Return URLs of closed WALs with all kinds of edits without tags, and hbase:meta's. They are the cluster's last WALs."""
    client.roll_wals()
    before = {url for url in wal_urls(encrypted) if is_closed(url) and not is_meta(url)}
    write_all_kinds(WithoutTags(client))  # type: ignore[arg-type]
    client.roll_wals()
    chance = random.Random(1)
    values = ({"f:q": chance.randbytes(chance.randrange(200)), "g:q": b"x" * i} for i in range(2_000))
    client.write("decoded", (wire.put(f"row{i:05}", each) for i, each in enumerate(values)))
    encrypted.cluster.stop()
    names = {url.rpartition("/")[2] for url in before}
    urls = [url for url in wal_urls(encrypted) if url.rpartition("/")[2] not in names]
    assert any(map(is_meta, urls))
    assert len(urls) > 2
    assert all(map(is_closed, urls))
    return urls


def wal_urls(encrypted: Encrypted) -> list[str]:
    root = Path(encrypted.cluster.address.wal_root.removeprefix("file://"))
    return [f"file://{path}" for path in [*root.glob("WALs/*/*"), *root.glob("oldWALs/*")] if not path.name.startswith(".")]


def is_meta(url: str) -> bool:
    return parse_wal_name(url.rpartition("/")[2]).is_meta


def test_the_files_are_encrypted_as_the_cluster_is_configured(encrypted: Encrypted, wals: list[str]) -> None:
    for url in wals:
        with open_wal(url) as file:
            head = file.read_at(0, min(file.size, MAX_HEADER_BYTES))
            whole = file.read_at(0, file.size)
        wrapped = parse_header(head, url).wrapped_key
        assert wrapped is not None
        header = WALHeader.FromString(head[6 : 6 + (head[4] & 0x7F | head[5] << 7)])
        assert header.writer_cls_name == "SecureProtobufLogWriter"
        assert header.has_compression == ("enablecompression" in encrypted.settings)
        key = WrappedKey.FromString(wrapped[1:])
        assert (key.algorithm, key.hash_algorithm) == ("AES", "SHA-256" if "SHA-256" in encrypted.settings else "MD5")
        assert b"appended" not in whole


def test_decoded_cells_are_those_that_hbase_s_wal_pretty_printer_prints(
    encrypted: Encrypted, client: JavaClient, wals: list[str]
) -> None:
    assert len(compare_with_pretty_printer(client, wals, unwrap_key=encrypted.source.keys())) > 5_000


def test_keys_positions_and_bytes_are_those_of_hbase_s_wal_reader(
    encrypted: Encrypted, client: JavaClient, wals: list[str]
) -> None:
    keys = encrypted.source.keys()
    assert compare_with_reader(client, wals, unwrap_key=keys) > 5_000
    assert compare_with_reader(client, wals, unwrap_key=keys, wal_batch_bytes=1000, batch_bytes=1000) > 5_000


def test_reading_goes_on_from_every_position_that_hbase_could_have_registered(encrypted: Encrypted, wals: list[str]) -> None:
    keys = encrypted.source.keys()
    url = min(wals, key=lambda wal: abs(Path(wal.removeprefix("file://")).stat().st_size - 300_000))
    rows = decode(url, unwrap_key=keys)
    for position in sorted({row["next_offset"] for row in rows})[:300]:
        with open_wal(url) as file:
            wal_batches = read_wal_batches(file, url, position, wal_batch_bytes=4096, partial_tail="error", unwrap_key=keys)
            first = next(wal_batches, None)
        following = next((row["key_offset"] for row in rows if row["key_offset"] >= position), None)
        assert (first and int(first.positions[0])) == following


class Arguments:
    """Watches the argument lists of all processes of this machine. A context manager."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._stop.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    self.seen.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))

    def __enter__(self) -> Arguments:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
