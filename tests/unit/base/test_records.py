"""Records that others may have changed: each is read back as it was written, or refused with one kind of error."""

from __future__ import annotations

import contextlib
import enum
import json
import tracemalloc
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.records import MAX_BYTES, MAX_DEPTH, NotARecord, Record, parsed, parsed_object
from walferry.base.security.login import Login
from walferry.base.zk.fenced_lock import record_of
from walferry.base.zk.records import decode, decode_or_none
from walferry.engine.summary import GroupSummary
from walferry.load.copy_records import CopyState, RegionRecord
from walferry.load.records import Folder, Load
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.shipping.bulkload.loading import ShareOutcome
from walferry.shipping.bulkload.survey import WalSurvey
from walferry.shipping.peer_down import notes_in
from walferry.verification.job import Options


class Colour(enum.StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    number: int


@dataclass(frozen=True, kw_only=True)
class Example(Record):
    """One field of each type that records have."""

    text: str
    count: int = 0
    share: float = 0.0
    flag: bool = False
    maybe: int | None = None
    colour: Colour = Colour.RED
    names: tuple[str, ...] = ()
    pair: tuple[int, str] = (1, "a")
    lists: Mapping[str, Sequence[int]] = field(default_factory=dict)
    by_colour: dict[Colour, int] = field(default_factory=dict)
    inner: Inner = field(default_factory=lambda: Inner(1))
    inners: list[Inner] = field(default_factory=list)


FULL = Example(
    text="ä\n", count=-3, share=1.5, flag=True, maybe=4, names=("a", "b"), pair=(2, "c"), lists={"t": [1, 2]},
    by_colour={Colour.RED: 2}, inner=Inner(5), inners=[Inner(6)],
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
# What reads what Walferry has written in ZooKeeper, and in what Spark's tasks send back.
READERS: dict[str, tuple[Callable[[bytes], Any], type[Exception] | tuple[()]]] = {
    "an initial snapshot": (partial(decode, CopyState), NotARecord),
    "a region's copy": (partial(decode, RegionRecord), NotARecord),
    "a load": (partial(decode, Load), NotARecord),
    "a folder": (partial(decode, Folder), NotARecord),
    "a fenced lock": (record_of, ()),
    "notes of a peer cluster": (notes_in, ()),
    "a summary": (GroupSummary.from_json, NotARecord),
    "a survey": (WalSurvey.from_json, NotARecord),
    "an outcome": (lambda value: ShareOutcome.from_json(value.decode(errors="surrogateescape")), NotARecord),
    "options": (lambda value: Options.from_json(value.decode(errors="surrogateescape")), NotARecord),
    "a source": (lambda value: SourceCluster.from_json(value.decode(errors="surrogateescape")), SourceError),
}
RECORDS = (
    CopyState, RegionRecord, GroupSummary, WalSurvey, ShareOutcome, Options, SourceCluster, Login,
)  # fmt: skip
FIELDS = sorted({name for kind in RECORDS for name in kind.__dataclass_fields__} | {"holder", "groups"})


def test_what_was_written_is_read_back() -> None:
    assert Example.from_json(json.dumps(asdict(FULL))) == FULL
    assert Example.from_json(b'{"text": "a", "of another version": [1]}') == Example(text="a")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "Example has no text"),
        ({"text": 7}, "text is 7, not str"),
        ({"count": "7"}, "count is 7, not int"),
        ({"count": True}, "count is True, not int"),
        ({"count": 1.0}, "count is 1.0, not int"),
        ({"count": None}, "count is NoneType, not int"),
        ({"share": True}, "share is True, not a number"),
        ({"flag": 1}, "flag is 1, not bool"),
        ({"maybe": "x"}, "maybe is x, not int"),
        ({"colour": "blue"}, "colour is blue, not one of red"),
        ({"colour": [[]]}, "colour is list, not one of red"),
        ({"names": "ab"}, "names is ab, not a list"),
        ({"names": [1]}, "names is 1, not str"),
        ({"pair": [1]}, "pair is list, not a list of 2"),
        ({"lists": [1]}, "lists is list, not an object"),
        ({"lists": {"t": 1}}, "lists is 1, not a list"),
        ({"by_colour": {"blue": 1}}, "by_colour is blue, not one of red"),
        ({"inner": 1}, "inner is 1, not an object"),
        ({"inner": {}}, "inner has no number"),
        ({"inners": [{"number": "x\n"}]}, r"number is x\u000a, not int"),
    ],
)
def test_a_value_of_another_type_is_refused(values: dict[str, Any], why: str) -> None:
    given_text = {} if not values else {"text": "a"}
    with pytest.raises(NotARecord) as refused:
        Example.from_json(json.dumps(given_text | values))
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"[" * 200_000, "it is nested more than 20 levels deep"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "it is nested more than 20 levels deep"),
        (b'{"a":' * 100_000, "it is nested more than 20 levels deep"),
        (b" " * (MAX_BYTES + 1), "it has 4,194,305 bytes"),
        (b"9" * 5000, "it is not JSON"),
        (b"9" * 400, "it has the number 999"),
        (b"1e400", "it has the number inf"),
        (b"NaN", "it has the number nan"),
        (rb'["\ud800"]', r"it has the text \ud800, which has no form in UTF-8"),
        (rb'{"\ud800": 1}', r"it has the text \ud800, which has no form in UTF-8"),
    ],
)
def test_what_no_record_has_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(NotARecord) as refused:
        parsed(text)
    assert why in str(refused.value)


@pytest.mark.parametrize("text", ["[]", "7", "null", '"a"'])
def test_only_an_object_is_an_object(text: str) -> None:
    with pytest.raises(NotARecord, match="not an object"):
        parsed_object(text)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "value",
    [
        b"", b"\xff", b"{}", b"[]", b"null", b"[" * 200_000, b'{"way":' + b"[" * 200_000, b"1e999", b"9" * 9999,
        b'{"way": "files", "families": "61", "bytes": "x", "staging": 7}', b'{"added": "1", "run": []}',
        b'{"group": 1, "status": []}', b'{"run_id": {"time": 1e400, "error": "x"}}',
    ],
)  # fmt: skip
def test_no_reader_ends_a_run_with_an_error_of_python_s(reader: str, value: bytes) -> None:
    read, refusal = READERS[reader]
    with contextlib.suppress(refusal):
        read(value)


@pytest.mark.parametrize("reader", READERS)
@given(values=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4) | JSON)
def test_no_value_ends_a_run_with_an_error_of_python_s(reader: str, values: Any) -> None:
    test_no_reader_ends_a_run_with_an_error_of_python_s(reader, json.dumps(values).encode(errors="surrogatepass"))


@given(st.dictionaries(st.sampled_from(sorted(RegionRecord.__dataclass_fields__)), JSON))
def test_a_record_has_the_types_that_its_kind_says(values: dict[str, Any]) -> None:
    found = decode_or_none(RegionRecord, json.dumps(values).encode())
    if found is not None:
        assert all(type(each) in (str, int, tuple) for each in asdict(found).values())
        assert all(isinstance(each, str) for each in (found.staging, found.peer_cluster_region, found.way, *found.families))


@pytest.mark.parametrize("each", ["[],", "{},", "1,"])
@pytest.mark.parametrize("form", [str, str.encode])
def test_a_text_of_very_many_values_is_not_parsed(
    each: str, form: Callable[[str], bytes | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = form("[" + each * 600_000 + "1]")
    monkeypatch.setattr(json, "loads", lambda text: pytest.fail("it was parsed"))
    with pytest.raises(NotARecord, match="values"):
        parsed(text)


@pytest.mark.slow
def test_a_packed_record_does_not_unpack_to_very_much() -> None:
    assert decode_or_none(Load, zlib.compress(b'{"a":["' + b"x" * (32 << 20) + b'"]}')) is None
    packed = zlib.compress(b'{"a":[' + b"[]," * (20 << 20) + b"[]]}")
    assert len(packed) < 100_000
    tracemalloc.start()
    try:
        assert decode_or_none(Load, packed) is None
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
