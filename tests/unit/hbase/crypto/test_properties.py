"""Properties files are read as Java reads them."""

from __future__ import annotations

from walferry.hbase.crypto.properties import parse_properties


def test_properties_are_read_as_java_reads_them() -> None:
    data = b"""
    # comment=1
  ! also = 2
a=1
b : two words \t
  c   3
d\\ e=\\u00e4\\t\\\\
f=one \\
   line
g
h==x
a=last
caf\xe9=\xe9"""
    assert parse_properties(data) == {
        "a": "last",
        "b": "two words \t",
        "c": "3",
        "d e": "ä\t\\",
        "f": "one line",
        "g": "",
        "h": "=x",
        "café": "é",
    }
