"""Which regions a task tries again, and which it gives up at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from walferry.base.errors import WalferryError
from walferry.hbase.files.errors import NoFileRight, UnreadableBytes
from walferry.hbase.tables.snapshots import SnapshotRegion
from walferry.initial_snapshot import region_copy
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


def test_a_second_try_of_a_spark_task_copies_only_what_the_first_one_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark begins a task again whose executor was lost, from its first region on."""
    noted: dict[str, RegionRecord] = {}
    copied: list[str] = []

    class Held:
        def __init__(self, name: str) -> None:
            self.name, self.record = name, noted.get(name)

        def put(self, record: RegionRecord) -> None:
            noted[self.name] = record

    def copy_files(loader: Any, region: SnapshotRegion, found: Any, held: Any) -> RegionRecord:
        copied.append(region.encoded_name)
        return COPIED

    monkeypatch.setattr(region_copy, "Records", lambda *_: SimpleNamespace(held=lambda table, name: Held(name)))
    monkeypatch.setattr(region_copy, "cluster_id", lambda *_: "id")
    monkeypatch.setattr(region_copy, "find_files", lambda *_: [])
    monkeypatch.setattr(region_copy, "copy_files", copy_files)
    side: Any = SimpleNamespace(
        zk=None, nodes=None, id="p", login=None, source=SimpleNamespace(hbase_root="file:///x"), place=lambda table: None
    )
    copier = RegionCopier(side, side, side, side)
    tasks = [RegionTask(SnapshotRegion("t", name, b"", b"", ()), (b"f",)) for name in ("a", "b", "c")]
    assert all(copier.copy(task).record for task in tasks[:2])  # then its executor is lost
    assert all(copier.copy(task).record for task in tasks)
    assert copied == ["a", "b", "c"]
