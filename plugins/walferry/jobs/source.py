"""Reads WALs as a Spark data source.

    spark.dataSource.register(HBaseWalDataSource)
    spark.read.format("hbase_wal").load("hdfs://namenode/hbase/oldWALs")

Each cell is a row, with the columns of `walferry.hbase.wal.arrow` and a last column, `path`, the URL of the cell's file. `load`
takes a WAL or a folder: of a folder, the WALs in it and in the servers' folders below it. Each WAL is a partition.

A file that is being written, or the last file of a crashed server, may end inside an entry. Option `partialTail` decides: `error`
(default), or `stop`, which takes the entries before.

Options `keyProvider` and `keyNames` (separated by commas) are for encrypted WALs, like `key_provider` and `key_names` of a source
cluster's connection (walferry.hbase.crypto.provider). Spark does not keep options secret, so a URL that holds a password is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import fsspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from walferry.hbase.crypto.provider import KeyProvider, KeyProviderError
from walferry.hbase.files.systems import open_wal
from walferry.hbase.names import as_wal_name
from walferry.hbase.wal.arrow import SCHEMA, read_batches

SPARK_SCHEMA = SCHEMA.append(pa.field("path", pa.string(), nullable=False))


class HBaseWalDataSource(DataSource):
    """`spark.read.format("hbase_wal")`."""

    @classmethod
    def name(cls) -> str:
        return "hbase_wal"

    def schema(self) -> StructType:
        return from_arrow_schema(SPARK_SCHEMA)

    def reader(self, schema: StructType) -> WalsReader:
        """Return a reader for the options. Raises ValueError for options that are missing or wrong."""
        path = self.options.get("path")
        if not path:
            raise ValueError('hbase_wal needs a WAL or a folder of WALs: spark.read.format("hbase_wal").load(path)')
        partial_tail = self.options.get("partialTail", "error")
        if partial_tail not in ("error", "stop"):
            raise ValueError(f"option partialTail of hbase_wal is 'error' or 'stop', not {partial_tail!r}")
        keys = None
        if url := self.options.get("keyProvider"):
            try:
                keys = KeyProvider(url, [name.strip() for name in self.options.get("keyNames", "").split(",") if name.strip()])
            except KeyProviderError as e:
                raise ValueError(f"option keyProvider of hbase_wal: {e}") from None
        return WalsReader(path, "stop" if partial_tail == "stop" else "error", keys)


class WalsReader(DataSourceReader):
    """Reads a WAL, or the WALs of a folder."""

    def __init__(self, path: str, partial_tail: Literal["error", "stop"], keys: KeyProvider | None = None) -> None:
        self._path = path
        self._partial_tail = partial_tail
        self._keys = keys  # reads nothing, so it contains no secret, before a worker uses it

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(url) for url in find_wals(self._path)]  # one WAL each

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        url: str = partition.value
        with open_wal(url) as file:
            for batch in read_batches(file, url, partial_tail=self._partial_tail, unwrap_key=self._keys):
                paths = pa.repeat(url, batch.num_rows)
                yield pa.RecordBatch.from_arrays([*batch.columns, paths], schema=SPARK_SCHEMA)


def find_wals(path: str) -> list[str]:
    """Return the URLs of the WAL `path`, or of the WALs in the folder `path` and in the folders right below it, sorted.

    Raises FileNotFoundError if `path` does not exist, or the folder contains no file with a WAL's name.
    """
    url = path if ":/" in path else f"file://{Path(path).absolute()}"  # not as_uri(): Hadoop's URLs are not encoded
    system, root = fsspec.core.url_to_fs(url)
    if not system.exists(root):
        raise FileNotFoundError(f"{url} does not exist; hbase_wal reads a WAL or a folder of WALs")
    if not system.isdir(root):
        return [url]
    wals = [
        system.unstrip_protocol(file) for file in sorted(system.find(root, maxdepth=2)) if as_wal_name(file.rpartition("/")[2])
    ]
    if not wals:
        raise FileNotFoundError(f"no file in {url}, or in the folders in it, has the name of a WAL")
    return wals
