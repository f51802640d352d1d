"""Times as they are printed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import PUT, Cell, entry
from tests.unit.observe.inspection.printed import printed
from walferry.observe.inspection.layouts import text_layout
from walferry.observe.inspection.selection import Selection

EVERYTHING = Selection()


@given(st.integers(0, 253_402_300_799_999))
def test_write_times_are_those_of_the_calendar(millis: int) -> None:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    assert f"timestamp={time.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}, " in _at(millis)


@pytest.mark.parametrize("millis", [-(1 << 63), -1, 253_402_300_800_000, (1 << 63) - 1])
def test_a_write_time_that_is_not_in_the_calendar_is_a_number(millis: int) -> None:
    assert f"at write timestamp={millis}, " in _at(millis)


def _at(millis: int) -> str:
    written = entry(Cell(b"r", b"f", b"q", 1, PUT, b""), write_time=millis % (1 << 64))
    return printed([written], EVERYTHING, text_layout)
