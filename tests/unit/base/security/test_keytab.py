"""Keytabs are read as MIT's library writes them."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.base.security.keytabs import KEY, entry, keytab
from walferry.base.security.keytab import KeytabEntry, KeytabError, parse_keytab, principals, read_keytab

names = st.text(st.characters(codec="utf-8", exclude_characters="\\/@\n\t\b\0"), max_size=12)


@given(
    components=st.lists(names, max_size=4), realm=names, version=st.integers(1, 2**32 - 1), encryption=st.integers(0, 65535),
    time=st.integers(0, 2**32 - 1), key=st.binary(max_size=40),
)  # fmt: skip
def test_an_entry_is_read_as_it_was_written(components, realm, version, encryption, time, key):
    written = b"\x05\x02" + entry(components, realm, version=version, encryption=encryption, time=time, key=key)
    assert parse_keytab(written) == [KeytabEntry(f"{'/'.join(components)}@{realm}", version, encryption, time)]


@given(st.binary(max_size=120))
def test_any_bytes_are_a_keytab_or_refused(data):
    with contextlib.suppress(ValueError):
        assert all(isinstance(each, KeytabEntry) for each in parse_keytab(b"\x05\x02" + data))


def test_a_file_that_was_cut_is_refused_wherever_that_was():
    whole = keytab("walferry@A", "hbase/host@A")
    border = len(keytab("walferry@A"))
    for length in range(3, len(whole)):
        if length != border:
            with pytest.raises(ValueError, match="offset"):
                parse_keytab(whole[:length])


def test_an_old_writer_has_only_the_short_version_of_a_key():
    assert parse_keytab(b"\x05\x02" + entry(["a"], "R", version=7, long_version=False))[0].version == 7


def test_holes_are_skipped_and_a_size_of_zero_is_the_end():
    hole = struct.pack(">i", -5) + b"xxxxx"
    data = b"\x05\x02" + hole + entry(["a"], "R") + hole + struct.pack(">i", 0) + b"\x00\x00\x00\x00rest"
    assert [each.principal for each in parse_keytab(data)] == ["a@R"]


def test_what_separates_names_is_escaped_within_one():
    assert parse_keytab(b"\x05\x02" + entry(["a/b", "c@d"], "R"))[0].principal == "a\\/b/c\\@d@R"


def test_the_kind_of_a_key_has_its_name():
    kinds = [each.encryption_name for each in parse_keytab(b"\x05\x02" + entry(["a"], "R") + entry(["a"], "R", encryption=99))]
    assert kinds == ["aes256-cts-hmac-sha1-96", "encryption 99"]


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"-----BEGIN", "does not begin as a keytab"), (keytab("a@R")[:-1], "goes beyond its end"), (b"", "does not begin")],
)
def test_an_error_names_the_file(tmp_path: Path, content, what):
    path = tmp_path / "k"
    path.write_bytes(content)
    with pytest.raises(KeytabError, match=what) as error:
        read_keytab(str(path))
    assert str(path) in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(KeytabError, match="No such file"):
        read_keytab(str(tmp_path / "none"))


def test_the_principals_of_a_keytab_are_told_once_each_and_its_keys_never():
    entries = parse_keytab(keytab("b@R", "a@R", "b@R"))
    assert principals(entries) == "a@R, b@R"
    assert KEY.hex() not in repr(entries)
    assert principals([]) == "none"
    assert principals(parse_keytab(keytab(*(f"p{n:02}@R" for n in range(12))))).endswith("p09@R and 2 more")
