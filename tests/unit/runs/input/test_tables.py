"""Names of tables that are typed into a form."""

from walferry.runs.input.tables import tables_of


def test_tables_are_named_as_hbase_names_them():
    assert tables_of({"tables": ["t", "default:t", " ns:t "]}) == ["t", "t", "ns:t"]
    assert tables_of({"tables": None}) == []
