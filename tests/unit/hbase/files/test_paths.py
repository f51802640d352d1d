"""Each name that HBase allows is one part of a path on HDFS, as it is in Hadoop's own paths, in which nothing is encoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.files.hdfs import new_file_system
from walferry.hbase.files.paths import path_of
from walferry.hbase.names import family_folder

NAMENODE = "hdfs://nn.example.org:8020"
HDFS = new_file_system(NAMENODE, {})
# ColumnFamilyDescriptorBuilder.isLegalColumnFamilyName looks at bytes: none is a control character of ASCII, or : / \
FAMILY_BYTES = sorted(set(range(0x20, 0x100)) - {0x7F, *b":/\\"})
CHARACTERS = [chr(code) for code in range(0x20, 0x3000) if code != 0x7F and chr(code) not in ":/\\"]
# TableName.isLegalTableQualifierName: letters, digits, _ - and . ; Java's letters are those with Unicode's property Alphabetic,
# to which some marks belong.
TABLES = st.text(st.characters(categories=["L", "Nd", "Nl", "Mc"], include_characters="_-."), min_size=1).filter(
    lambda name: name[0] not in ".-"
)
FAMILIES = st.one_of(
    st.text(st.sampled_from(CHARACTERS), min_size=1).map(str.encode), st.lists(st.sampled_from(FAMILY_BYTES)).map(bytes)
).filter(lambda family: family[:1] not in (b"", b"."))


def stripped(url: str) -> str:
    """What the client of HDFS is asked for."""
    return str(HDFS._strip_protocol(url))


@pytest.mark.parametrize("place", ["{}", "{}0", "L{}", "L{}0"])
def test_a_family_with_any_character_is_one_folder_on_hdfs(place: str) -> None:
    families = [place.format(chr(byte)) for byte in FAMILY_BYTES]
    for family in families:
        if family.startswith("."):
            continue
        path = f"/hbase/data/default/t/5f1c0a/{family_folder(family.encode())}/0a1b2c"
        assert stripped(f"{NAMENODE}{path}") == stripped(path) == path, family
        assert path.count("/") == 7, family


@given(TABLES, FAMILIES)
def test_paths_of_tables_and_families_are_taken_literally(table: str, family: bytes) -> None:
    path = f"/hbase/data/{table.replace('-', '_').replace('.', '_')}/{table}/5f1c0a/{family_folder(family)}/0a1b2c"
    for root in (NAMENODE, "hdfs://cluster", "hdfs://", "hdfs:", "viewfs://table", "hdfs://user@[2001:db8::1]:8020"):
        assert path_of(f"{root}{path}") == path
    assert stripped(f"{NAMENODE}{path}") == stripped(path) == path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("hdfs://nn", "/"),
        ("hdfs://nn/", "/"),
        ("hdfs://nn/a/", "/a"),
        ("/a//b", "/a//b"),
        ("hdfs:///a", "/a"),
        ("hdfs:/a", "/a"),
        ("/x/hdfs://y", "/x/hdfs://y"),
        ("hdfs://nn/\t a\n", "/\t a\n"),
        ("hdfs://nn/a;b?c#d%41[e", "/a;b?c#d%41[e"),
    ],
)
def test_a_path_is_what_follows_the_host(url: str, path: str) -> None:
    assert path_of(url) == path
