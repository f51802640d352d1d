"""Phoenix on embedded clusters: its servers' settings and jars, SQL by JDBC, and WALs with index entries.

Phoenix 5 runs on the clusters of HBASE_2, Phoenix 4 on those of HBASE_1.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedded.client import ClientJvm
from embedded.hbase import ClusterAddress
from embedded.jars import HBASE_1, PHOENIX, PHOENIX_4, hbase_classpath
from embedded.processes import ClusterError, start_java

CONF = {"hbase.regionserver.wal.codec": "org.apache.hadoop.hbase.regionserver.wal.IndexedWALEditCodec"}
# For servers and clients: tables are indexed as before Phoenix 4.14.3 and 5.1, with index entries in WALs.
WITH_INDEX_ENTRIES = {"phoenix.index.region.observer.enabled": "false"}
SQL_SECONDS = 300


def phoenix_classpath() -> list[Path]:
    """Return Phoenix's jars, for servers and clients, without those of HBase."""
    return hbase_classpath(PHOENIX)


def phoenix_4_classpath() -> list[Path]:
    """Return the jars of Phoenix 4, for servers and clients. They follow HBase's, some of which have older copies here."""
    return hbase_classpath(PHOENIX_4)


def run_phoenix_4(address: ClusterAddress, *statements: str, tenant: str | None = None) -> list[tuple[str, ...]]:
    """Run statements by Phoenix 4 in a JVM of their own, as the other clients' has classes of HBase 2. Takes some 10 s.

    Returns the rows of all queries, each value as text. Raises ClusterError with the log's end if a statement fails.
    """
    with tempfile.TemporaryDirectory(prefix="walferry-sql-") as name:
        folder = Path(name)
        script = folder / "statements.sql"
        script.write_text("".join(f"{sql};\n" for sql in statements))
        url = f"jdbc:phoenix:{address.quorum}:{address.znode_parent}" + (f";TenantId={tenant}" if tenant else "")
        options = {
            "-d": "org.apache.phoenix.jdbc.PhoenixDriver", "-u": url, "-n": "none", "-p": "none", "-f": str(script),
            "--fastConnect=true": "", "--silent=true": "", "--outputformat=csv": "", "--showHeader=false": "",
            "--isolation=TRANSACTION_READ_COMMITTED": "", "--autoCommit=true": "",
        }  # fmt: skip
        arguments = [part for option in options.items() for part in option if part]
        classpath = [address.hbase_site.parent, *phoenix_4_classpath()]
        process = start_java("sql", "sqlline.SqlLine", arguments, folder=folder, classpath=classpath, jars=HBASE_1)
        try:
            process.popen.wait(SQL_SECONDS)
        finally:
            process.kill()
        text = process.log_text()
        if process.popen.returncode or "\nError:" in text:
            raise ClusterError("a statement failed", process.tail())
        return [tuple(row) for row in csv.reader((line for line in text.splitlines() if line.startswith("'")), quotechar="'")]


class PhoenixSql:
    """SQL at one cluster, through a JVM with Phoenix's jars. With `tenant`, the connection is that tenant's."""

    def __init__(self, jvm: ClientJvm, address: ClusterAddress, tenant: str | None = None) -> None:
        self._java = jvm.java
        url = f"jdbc:phoenix:{address.quorum}:{address.znode_parent}"
        self._connection = self._java.java.sql.DriverManager.getConnection(f"{url};TenantId={tenant}" if tenant else url)
        self._connection.setAutoCommit(True)

    def run(self, *statements: str) -> None:
        """Run statements without results."""
        for sql in statements:
            statement = self._connection.createStatement()
            statement.execute(sql)
            statement.close()

    def upsert(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once a row, and commit at the end."""
        statement = self._connection.prepareStatement(sql)
        self._connection.setAutoCommit(False)
        for row in rows:
            for place, value in enumerate(row, 1):
                statement.setObject(place, value)
            statement.execute()
        self._connection.commit()
        self._connection.setAutoCommit(True)
        statement.close()

    def select(self, sql: str) -> list[tuple[str, ...]]:
        """Return the rows of a query, each value as text."""
        statement = self._connection.createStatement()
        found, rows = statement.executeQuery(sql), []
        columns = range(1, found.getMetaData().getColumnCount() + 1)
        while found.next():
            rows.append(tuple(str(found.getString(column)) for column in columns))
        statement.close()
        return rows


def write_indexed_wal(
    jvm: ClientJvm, path: Path, conf: Mapping[str, str], entries: Iterable[Sequence[tuple[str, bytes]]]
) -> None:
    """Write a WAL by HBase's own writer and Phoenix's codec.

    An entry's parts are ("cell", row), a put of the row, or ("index", row), a mutation of an index table as Phoenix 4 keeps it.
    """
    java = jvm.java
    hbase = java.org.apache.hadoop.hbase
    configuration = hbase.HBaseConfiguration.create()
    for name, value in {**CONF, "fs.defaultFS": "file:///", **conf}.items():
        configuration.set(name, value)
    name = hbase.TableName.valueOf("indexed")
    region = bytearray(b"0123456789abcdef" * 2)
    files = java.org.apache.hadoop.fs.FileSystem.get(configuration)
    writer = hbase.wal.WALFactory.createWALWriter(files, java.org.apache.hadoop.fs.Path(str(path)), configuration)
    for number, parts in enumerate(entries, 1):
        edit = hbase.wal.WALEdit()
        for kind, row in parts:
            put = hbase.client.Put(row).addColumn(b"f", b"q", 1_700_000_000_000 + number, row)
            if kind == "index":
                edit.add(java.org.apache.phoenix.hbase.index.wal.IndexedKeyValue.newIndexedKeyValue(b"IDX_" + row[:3], put))
            else:
                edit.add(put.get(b"f", b"q").get(0))
        key = hbase.wal.WALKeyImpl(bytes(region), name, number, 1_700_000_000_000, java.java.util.UUID(0, 1))
        writer.append(hbase.wal.WAL.Entry(key, edit))
    writer.sync(False)
    writer.close()
