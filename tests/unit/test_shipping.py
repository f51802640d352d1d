"""What the reader hands to the lanes of a window in which some entries stop it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.unit.test_bulk_loads import OFF, load
from tests.unit.test_filters import RULES, entry, put, window_of
from tests.unit.test_visibility import SECRET, cell
from walferry.bulk_loads import BulkLoadRefused
from walferry.shipping import _GroupShipping
from walferry.source import VisibilityLabels
from walferry.visibility import LabelFilter, LabelsRefused


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ([entry(put()), load(), entry(put()), entry(cell(SECRET))], BulkLoadRefused),
        ([entry(put()), entry(cell(SECRET)), entry(put()), load()], LabelsRefused),
    ],
)
def test_what_lies_before_the_first_entry_that_stops_the_queue_is_shipped_whatever_comes_later(entries, error):
    handed_out = []
    reader = object.__new__(_GroupShipping)
    reader.__dict__.update(
        _job=SimpleNamespace(source=OFF),
        _labels=LabelFilter(VisibilityLabels.REFUSE, dict),
        _counters=SimpleNamespace(read=lambda window, kept: None),
        _acknowledged=SimpleNamespace(read_to=lambda offset: None),
        _ends={},
    )
    lanes = SimpleNamespace(dispatch=lambda window, *_: handed_out.append(len(window.index)))
    with pytest.raises(error):
        reader._hand_out_to_first_error(window_of(*entries), 0, "wal", lanes, RULES)
    assert handed_out == [1]
