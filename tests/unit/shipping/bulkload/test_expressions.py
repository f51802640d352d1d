"""Cells with visibility expressions are found in the WALs that are loaded."""

from __future__ import annotations

from tests.unit.hbase.wal.encoder import Cell
from tests.unit.replication.filters.test_window import entry, put
from tests.unit.shipping.bulkload.wal_files import GOOD, Files, Read, files
from walferry.hbase.wal.cells import TagType, encode_tag
from walferry.replication.source.cluster import SourceCluster, VisibilityLabels
from walferry.shipping.bulkload.reading import read_wals

__all__ = ["files"]  # a fixture


def test_a_table_with_expressions_of_labels_is_left_out_whatever_happens_to_labels(files: Files) -> None:
    words = encode_tag(TagType.TTL, bytes(8)) + encode_tag(TagType.VISIBILITY_EXPRESSION, b"secret&!public")
    files.put(0, [*GOOD, entry(put(), Cell(b"a", b"f", b"q", 1, 4, b"value", words), table=b"u")])
    files.source = SourceCluster(quorum="zk:2181", wal_root=files.source.wal_root, visibility_labels=VisibilityLabels.SHIP)
    found = Read(read_wals(files.wals(1), files.job()))
    assert found.unfit == {"u": "it has cells with visibility expressions, which the slave reads only if they are put"}
    assert found.reports[0].tables.keys() == {"t", "u"}
