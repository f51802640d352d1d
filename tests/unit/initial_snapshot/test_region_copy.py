"""Which regions a task tries again, and which it gives up at once."""

from __future__ import annotations

from typing import Any

import pytest

from walferry.base.errors import WalferryError
from walferry.hbase.files.errors import NoFileRight, UnreadableBytes
from walferry.initial_snapshot.manifest import SnapshotRegion
from walferry.initial_snapshot.region_copy import RegionCopier, RegionTask
from walferry.load import file_loader
from walferry.load.copy_records import CopyWay, RegionRecord

TASK = RegionTask(SnapshotRegion("t", "abc", b"", b"", ()), (b"f",))
COPIED = RegionRecord(CopyWay.FILES)
WHY = "HDFS does not give these bytes: their block is missing"


class Copier(RegionCopier):
    """Meets an error at each of its first tries."""

    def __init__(self, *errors: Exception) -> None:
        nothing: Any = None
        super().__init__(nothing, nothing, nothing, nothing)
        object.__setattr__(self, "left", list(errors))

    def _copy(self, task: RegionTask) -> RegionRecord:
        left: list[Exception] = self.left  # type: ignore[attr-defined]
        if left:
            raise left.pop(0)
        return COPIED


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits before another try."""
    waited: list[float] = []
    monkeypatch.setattr(file_loader.Patience, "wait", lambda patience: waited.append(patience.seconds) or True)
    return waited


@pytest.mark.parametrize(
    "error", [UnreadableBytes("hdfs://nn/f", 7, WHY, "See hdfs fsck /f", lost=True), NoFileRight("no right to read f")]
)
def test_a_file_that_cannot_be_read_any_more_is_given_up_at_once_with_the_reason(
    waits: list[float], error: WalferryError
) -> None:
    outcome = Copier(error, error).copy(TASK)
    assert (outcome.record, waits) == (None, [])
    assert str(error) in outcome.error


@pytest.mark.parametrize(
    "error", [UnreadableBytes("hdfs://nn/f", 7, "a DataNode does not answer", "Start it"), FileNotFoundError(2, "it has moved")]
)
def test_what_may_pass_is_tried_again(waits: list[float], error: Exception) -> None:
    assert Copier(error, error).copy(TASK).record == COPIED
    assert len(waits) == 2
