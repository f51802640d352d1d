"""The layout of a history: a written one is read back, and no other value passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.observe.status.ages import NOTHING_WAITS, Age, Certainty, unknown
from walferry.observe.status.history import INTERVAL_SECONDS, SAMPLES, HistoryError, Sample, decode, encode, sample_at

LONGS = st.integers(0, (1 << 63) - 1)
LAGS = st.one_of(
    st.just((None, Certainty.UNKNOWN)),
    st.tuples(LONGS, st.sampled_from([each for each in Certainty if each is not Certainty.UNKNOWN])),
)
LEFT = st.one_of(st.just((None, 0)), st.tuples(LONGS, st.integers(0, (1 << 32) - 1)))


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    intervals = draw(st.sets(st.integers(0, (1 << 32) - 1), max_size=SAMPLES))
    found = []
    for interval in sorted(intervals):
        (lag, certainty), (left, unsure) = draw(LAGS), draw(LEFT)
        shipped, wals = draw(st.none() | LONGS), draw(st.none() | st.integers(0, (1 << 31) - 1))
        found.append(Sample(interval, lag, certainty, left, unsure, shipped, wals))
    return found


@given(histories())
def test_what_is_written_is_read_back(samples: list[Sample]) -> None:
    value = encode(samples)
    assert decode(value, "/history/p") == tuple(samples)
    assert len(value) < 11_000


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: encode([]) + tail))
def test_other_bytes_are_a_history_only_if_they_would_be_written_so(value: bytes) -> None:
    try:
        samples = decode(value, "/history/p")
    except HistoryError as error:
        assert "/history/p" in str(error)  # noqa: PT017
    else:
        assert encode(samples) == value


@given(histories().filter(bool), st.data())
def test_a_changed_byte_is_noticed_or_makes_another_history(samples: list[Sample], data: st.DataObject) -> None:
    value = bytearray(encode(samples))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))
    try:
        found = decode(bytes(value), "/history/p")
    except HistoryError:
        return
    assert encode(found) == value


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"WFH\x02",
        b"WFH\x01" + bytes(3),
        b"WFH\x01" + bytes(10 << 20),
        encode([Sample(7, 1, Certainty.EXACT, 1, 0, 1, 1)] * 2),
    ],
    ids=["empty", "version", "cut off", "huge", "an interval twice"],
)
def test_what_is_no_history_is_refused(value: bytes) -> None:
    with pytest.raises(HistoryError, match=r"znode /history/p: .*The next sample begins it anew"):
        decode(value, "/history/p")


def test_a_sample_says_what_is_not_known() -> None:
    sample = sample_at(10 * INTERVAL_SECONDS + 299.9, unknown("why"), None, None, None)
    assert sample == Sample(10, None, Certainty.UNKNOWN, None, 0, None, None)
    assert sample.at == 10 * INTERVAL_SECONDS
    assert decode(encode([sample]), "/history/p") == (sample,)
    assert sample_at(0, NOTHING_WAITS, (0, 0), 0, 0) == Sample(0, 0, Certainty.EXACT, 0, 0, 0, 0)


@given(st.integers(0), st.integers(0), st.integers(0), st.integers(0), st.integers(0), st.sampled_from(Certainty))
def test_numbers_that_are_too_large_are_cut(lag: int, known: int, unsure: int, shipped: int, wals: int, how: Certainty) -> None:
    sample = sample_at(1e12, Age(lag, how), (known, unsure), shipped, wals)
    assert decode(encode([sample]), "/history/p") == (sample,)
