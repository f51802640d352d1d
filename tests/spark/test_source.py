"""WALs through `spark.read.format("hbase_wal")`."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.unit.hbase.crypto import key_stores
from tests.unit.hbase.crypto.key_stores import KEYS, PASSWORD
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_wal, entry
from tests.unit.hbase.wal.sealed import encode_sealed, sealed_header, wrap_key
from tests.unit.hbase.wal.strategies import rows
from walferry.jobs.source import HBaseWalDataSource, find_wals

SERVER = "h.example.org%2C16020%2C1700000000000"


def entries(region: bytes, count: int) -> list[Entry]:
    written = [entry(Cell(b"row%d" % i, b"f", b"q", i, PUT, b"v" * i), region=region, sequence_id=i) for i in range(count)]
    written[0].key.cluster_ids.add(least_sig_bits=1, most_sig_bits=2)
    return written


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:  # jobs on YARN would have these paths too
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # for the Python processes that Spark starts
        yield from _session()


def _session() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
    session = builder.config("spark.driver.host", "localhost").getOrCreate()
    session.dataSource.register(HBaseWalDataSource)
    yield session
    session.stop()
    # Spark has put a function of its own here, which other gateways, such as that to HBase's client, cannot use.
    py4j.java_gateway.get_return_value = py4j.protocol.get_return_value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """oldWALs with a WAL, a WAL in a server's folder, and a file that is not a WAL."""
    folder = tmp_path_factory.mktemp("oldWALs")
    (folder / "z,16020,1").mkdir()
    (folder / f"{SERVER}.17").write_bytes(encode_wal(entries(b"r1", 30)))
    (folder / "z,16020,1" / "z%2C16020%2C1.18").write_bytes(encode_wal(entries(b"r2", 20)))
    (folder / "README").write_text("not a WAL")
    return folder


def load(spark: SparkSession, path: object, **options: str) -> DataFrame:
    return spark.read.format("hbase_wal").options(**options).load(str(path))


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    return [
        {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict().items()}
        for row in frame.orderBy("path", "key_offset").collect()
    ]


def test_a_folder_gives_the_cells_of_its_wals_and_says_which_file_each_is_from(spark: SparkSession, folder: Path) -> None:
    first, second = f"file://{folder}/{SERVER}.17", f"file://{folder}/z,16020,1/z%2C16020%2C1.18"
    expected = [row | {"path": first} for row in rows(entries(b"r1", 30))]
    expected += [row | {"path": second} for row in rows(entries(b"r2", 20))]
    frame = load(spark, folder)
    assert collected(frame) == expected
    assert frame.rdd.getNumPartitions() == 2


def test_one_wal_can_be_read_by_its_path_or_its_url(spark: SparkSession, folder: Path) -> None:
    wal = folder / f"{SERVER}.17"
    assert load(spark, wal).count() == load(spark, f"file://{wal}").count() == 30


def test_columns_can_be_queried(spark: SparkSession, folder: Path) -> None:
    load(spark, folder).createOrReplaceTempView("wal")
    query = "SELECT region, max(sequence_id), sum(length(value)) FROM wal WHERE type = 'Put' GROUP BY region ORDER BY region"
    assert [tuple(row) for row in spark.sql(query).collect()] == [("r1", 29, 435), ("r2", 19, 190)]


def test_a_wal_that_ends_inside_an_entry_is_an_error_or_ends_there_by_choice(spark: SparkSession, tmp_path: Path) -> None:
    wal = tmp_path / f"{SERVER}.19"
    wal.write_bytes(encode_wal(entries(b"r", 5), trailer=b"")[:-1])
    assert load(spark, wal, partialTail="stop").count() == 4
    with pytest.raises(Exception, match=re.escape(f"file://{wal} at byte ")):
        load(spark, wal).count()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (None, None, "does not exist"),
        ("README", b"not a WAL", "has the name of a WAL"),
        (f"{SERVER}.20", b"PWAL\x06\x08\x01\x30\x01\x38\x05", "number 5 of HBase's"),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: SparkSession, tmp_path: Path, name: str | None, content: bytes | None, message: str
) -> None:
    folder = tmp_path / "wals"
    if name is not None and content is not None:
        folder.mkdir()
        (folder / name).write_bytes(content)
    with pytest.raises(Exception, match=message) as e:
        load(spark, folder).count()
    assert f"file://{folder}" in str(e.value)


def test_encrypted_wals_are_read_with_a_key_provider_whose_url_holds_no_password(spark: SparkSession, tmp_path: Path) -> None:
    wal, written = tmp_path / f"{SERVER}.21", entries(b"r", 5)
    wal.write_bytes(encode_sealed(written, header=sealed_header(wrap_key(master=KEYS["JCEKS"]["hbase"]))))
    (tmp_path / "keys.jceks").write_bytes(key_stores.JCEKS)
    (tmp_path / "passwords").write_text(f"hbase={PASSWORD}\n")
    url = f"jceks://{tmp_path}/keys.jceks?passwordFile={tmp_path}/passwords"
    found = collected(load(spark, wal, keyProvider=url, keyNames="absent, hbase"))
    assert [row["value"] for row in found] == [row["value"] for row in rows(written)]
    with pytest.raises(Exception, match="the WAL is encrypted, and no key provider is given"):
        load(spark, wal).count()
    with pytest.raises(Exception, match="option keyProvider of hbase_wal: the key provider holds a password") as e:
        load(spark, wal, keyProvider="jceks:///k?password=hunter2").count()
    assert "hunter2" not in str(e.value)


def test_options_that_are_missing_or_wrong_are_named(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(Exception, match="needs a WAL or a folder"):
        spark.read.format("hbase_wal").load().count()
    with pytest.raises(Exception, match="option partialTail of hbase_wal is 'error' or 'stop', not 'skip'"):
        load(spark, folder, partialTail="skip").count()


def test_wals_are_listed_in_order(folder: Path) -> None:
    assert [url.rpartition("/")[2] for url in find_wals(str(folder))] == [f"{SERVER}.17", "z%2C16020%2C1.18"]
