"""Records of loads are read with care: ZooKeeper may have anything in their place."""

from __future__ import annotations

import json
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.zk.records import decode, decode_or_none, encode
from walferry.hbase.binary_text import to_binary_text
from walferry.load.records import Folder, Load

GROUP, OTHER = "rs-1%2C16020%2C1700000000001", "rs-2%2C16020%2C1700000000002"
GOOD = {"run": "r", "groups": {GROUP: f"{GROUP}.5"}, "done": True, "tables": {"t": ["f"]}}
TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def written(values: object) -> bytes:
    return zlib.compress(json.dumps(values).encode())


@given(
    st.builds(
        Load,
        TEXT,
        st.dictionaries(TEXT, st.just("")) | st.just({GROUP: f"{GROUP}.5"}),
        st.booleans(),
        st.dictionaries(TEXT, st.lists(st.binary().map(to_binary_text)).map(tuple)),
    )
)
def test_a_record_is_read_as_it_was_written(load: Load) -> None:
    assert decode(Load, encode(load)) == load


@given(st.builds(Folder, TEXT, TEXT, st.binary().map(bytes.hex)))
def test_a_note_is_read_as_it_was_written(folder: Folder) -> None:
    assert decode(Folder, encode(folder)) == folder


@pytest.mark.parametrize(
    "values",
    [
        GOOD | {"run": 1}, GOOD | {"groups": []}, GOOD | {"groups": {GROUP: None}}, GOOD | {"tables": "t"},
        GOOD | {"tables": None},
        GOOD | {"tables": {"t": 1}}, GOOD | {"tables": ["t"]}, GOOD | {"tables": {"t": ["f", 7]}}, GOOD | {"tables": {"t": "f"}},
        GOOD | {"tables": {"t": ["\\xZZ"]}},
        GOOD | {"tables": {"\ud800": ["f"]}}, GOOD | {"tables": {"t": ["\ud800"]}}, GOOD | {"run": "\udcff"},
        GOOD | {"groups": {GROUP: "not a WAL"}}, GOOD | {"groups": {GROUP: f"{OTHER}.5"}}, GOOD | {"groups": {GROUP: "../x.1"}},
        {key: GOOD[key] for key in ("run", "groups", "done")}, [], None, "text", 5,
    ],
)  # fmt: skip
def test_a_record_of_the_wrong_types_is_not_one(values: object) -> None:
    assert decode_or_none(Load, written(GOOD)) is not None
    assert decode_or_none(Load, written(values)) is None


def test_only_true_makes_a_load_done() -> None:
    for done in (1, "true", "", None, [True]):
        assert decode_or_none(Load, written(GOOD | {"done": done})) is None


@pytest.mark.parametrize(
    "value", [b"", b"x", b"\xff" * 100, zlib.compress(b"\xff"), zlib.compress(b"[" * 1_000_000), written(GOOD)[:-9]]
)
def test_bytes_that_are_nothing_at_all_are_not_a_record(value: bytes) -> None:
    assert decode_or_none(Load, value) is None
    assert decode_or_none(Folder, value) is None


def test_brackets_within_brackets_are_not_a_note() -> None:
    assert decode_or_none(Folder, b"[" * 1_000_000) is None


@pytest.mark.slow
def test_a_record_that_grows_without_end_is_given_up() -> None:
    bomb = zlib.compress(b'{"run": "' + bytes(1 << 30), 9)
    assert len(bomb) < 2 << 20
    tracemalloc.start()
    try:
        assert decode_or_none(Load, bomb) is None
        assert tracemalloc.get_traced_memory()[1] < 512 << 20
    finally:
        tracemalloc.stop()


@given(JSON)
def test_whatever_json_it_is_a_record_is_read_or_refused(values: object) -> None:
    decode_or_none(Load, written(values))
    decode_or_none(Load, written({"run": values, "groups": values, "done": values, "tables": values}))
    assert decode_or_none(Folder, json.dumps(values).encode()) is None


@given(st.integers(0, 20), st.integers(0, 20))
def test_wals_up_to_the_last_one_of_their_group_are_loaded_once_the_load_is_done(last: int, number: int) -> None:
    done = Load("r", {GROUP: f"{GROUP}.{last}"}, done=True)
    assert done.covers(f"{GROUP}.{number}") == (number <= last)
    assert not done.covers(f"{OTHER}.{number}")
    assert not done.covers(f"{GROUP}.regiongroup-0.{number}")
    assert not Load("r", done.groups).covers(f"{GROUP}.{number}")
    assert not Load("r", {GROUP: ""}, done=True).covers(f"{GROUP}.{number}")
    others = Load("r", done.groups, done=True, others_before=last)
    assert others.covers(f"{OTHER}.{number}") == (number < last)
    assert others.covers(f"{GROUP}.{number}") == (number <= last)


def test_a_number_of_more_digits_is_a_younger_wal() -> None:
    assert Load("r", {GROUP: f"{GROUP}.10"}, done=True).covers(f"{GROUP}.9")
