"""The text in which HBase 0.98 to 1.3 keeps a peer's tables: what ReplicationAdmin.parseTableCFsFromConfig makes of it."""

import pytest

from walferry.hbase.table_cfs import parse_table_cfs


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("", None),
        (" \t\n", None),
        (" ; ;", None),  # HBase makes no map of it, which means all tables
        ("t1", {"t1": ()}),
        ("t1;ns.t2:f1,f2", {"t1": (), "ns.t2": ("f1", "f2")}),  # these releases take "ns.t2" for a table of the default namespace
        (" t1 : a , b ;\n t2 ", {"t1": ("a", "b"), "t2": ()}),
        ("t1:;t2: , ;t3:f,,g,;t4:f:", {"t1": (), "t2": (), "t3": ("f", "g"), "t4": ("f",)}),
        ("ns:t", {"ns": ("t",)}),
        ("t:a;t:b", {"t": ("b",)}),
    ],
)
def test_the_text_says_what_hbase_reads_in_it(text: str, tables: dict[str, tuple[str, ...]] | None) -> None:
    assert parse_table_cfs(text) == tables


@pytest.mark.parametrize("text", ["t1;ns:t2:f", ":f", "t1;:", "a b:f", ".t", "t/u", "x" * 300 + ":a:b"])
def test_what_hbase_passes_over_or_fails_at_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a table with families") as refused:
        parse_table_cfs(text)
    assert len(str(refused.value)) < 300
