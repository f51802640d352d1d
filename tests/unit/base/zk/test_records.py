"""Records in znodes are read as they were written, and nothing else is read as one."""

from __future__ import annotations

import json
import os
import tracemalloc
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from walferry.base.records import MAX_BYTES, NotARecord, Record
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.records import COMPRESSED_FROM_BYTES, decode, decode_or_none, encode, wrong_record

TEXT = st.text(st.characters(codec="utf-8"))
LONG = TEXT.map(lambda text: text + "long" * COMPRESSED_FROM_BYTES)


@dataclass(frozen=True)
class Example(Record):
    text: str
    count: int = 0
    row: bytes = b""
    names: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)


EXAMPLES = st.builds(
    Example, TEXT | LONG, st.integers(-(1 << 60), 1 << 60), st.binary(), st.lists(TEXT).map(tuple),
    st.dictionaries(TEXT, st.integers(0, 1 << 60)),
)  # fmt: skip
PLAIN = st.dictionaries(TEXT, st.integers(0, 1 << 60))


@given(EXAMPLES)
def test_a_record_is_read_as_it_was_written(record: Example) -> None:
    assert decode(Example, encode(record)) == record


@given(PLAIN)
def test_plain_values_are_read_as_they_were_written(values: dict[str, int]) -> None:
    assert decode(dict[str, int], encode(values)) == values


def test_only_a_large_record_is_compressed() -> None:
    small, large = Example("a"), Example("a" * COMPRESSED_FROM_BYTES)
    assert json.loads(encode(small)) == {**asdict(small), "row": "", "names": []}
    assert len(encode(large)) < 1000
    assert json.loads(zlib.decompress(encode(large)))["text"] == large.text


@given(st.binary() | st.binary().map(zlib.compress) | st.binary().map(lambda some: b"x" + some))
@example(b"")
@example(b"x")
@example(zlib.compress(b"[" * 1_000_000))
@example(zlib.compress(b'{"text": "a"}')[:-1])
@example(zlib.compress(b'{"text": "a"}') + b"x")
@example(zlib.compress(zlib.compress(b'{"text": "a"}')))
def test_whatever_bytes_a_znode_has_they_are_refused_in_one_way(value: bytes) -> None:
    for kind in (Example, dict[str, int], dict[str, Any]):
        found = decode_or_none(kind, value)
        assert found in (None, {})
        if found is None:
            with pytest.raises(NotARecord):
                decode(kind, value)


@given(EXAMPLES | LONG.map(Example), st.data())
def test_bytes_that_were_changed_are_refused_or_another_record(record: Example, data: st.DataObject) -> None:
    value = bytearray(encode(record))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))
    found = decode_or_none(Example, bytes(value))
    assert found is None or all(type(each) in (str, int, bytes, tuple, dict) for each in vars(found).values())


@pytest.mark.parametrize("packed", [False, True])
def test_a_record_has_at_most_so_many_bytes(packed: bool) -> None:
    def written(size: int) -> bytes:
        text = b'{"text": "%s"}' % (b"a" * (size - len(b'{"text": ""}')))
        return zlib.compress(text) if packed else text

    assert decode(Example, written(1000), 1000).text.startswith("aaa")
    for size, most in ((1001, 1000), (MAX_BYTES + 1, MAX_BYTES)):
        with pytest.raises(NotARecord, match=f"more than {most:,}"):
            decode(Example, written(size), most)


@pytest.mark.long
def test_a_record_that_unpacks_to_very_much_takes_no_memory() -> None:
    bomb = zlib.compress(bytes(256 << 20), 9)
    tracemalloc.start()
    try:
        assert decode_or_none(Example, bomb) is None
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_BYTES
    finally:
        tracemalloc.stop()


def test_the_error_names_the_znode_and_says_what_to_do() -> None:
    value = b'{"text": "' + os.urandom(20).hex().encode() + b'", "count": "x\\n"}'
    with pytest.raises(NotARecord) as refused:
        decode(Example, value)
    error = wrong_record("/a/b", "an example", refused.value, "Delete it")
    assert isinstance(error, ZNodeValueError)
    assert str(error) == r"znode /a/b: it is not an example: count is x\u000a, not int. Delete it"
    assert (error.znode, error.advice) == ("/a/b", "Delete it")
    assert len(str(wrong_record("/a", "an example", ValueError("y\n" * 9000), ""))) < 400
