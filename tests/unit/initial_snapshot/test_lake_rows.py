"""A task copies all cells of its rows, and one region's trouble is not its neighbours'."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.table import Table

from tests.unit.hbase.hfiles.models import random_cells
from tests.unit.hbase.hfiles.writing import write
from tests.unit.hbase.wal.encoder import Cell
from tests.unit.replication.sinks.iceberg.lake import catalog_in
from walferry.hbase.hfiles.opened import HFile
from walferry.hbase.tables.snapshots import SnapshotRegion, StoreFile
from walferry.hbase.wal.cells import CellType
from walferry.initial_snapshot import lake_rows as module
from walferry.initial_snapshot.lake_pieces import LakeCopy, LakeTask, Piece, rest_of, why_wrong
from walferry.initial_snapshot.lake_rows import copy_to_lake
from walferry.replication.sinks.iceberg.commits import Batch, FirstCopy, Positions, append_copy
from walferry.replication.sinks.iceberg.data_files import Target
from walferry.replication.sinks.iceberg.tables import table_of

SORTED = random_cells(3, 3_000, tags=False)
MIDDLE = SORTED[len(SORTED) // 2].row


class Source:
    """A table of two regions with files in a folder, and a table of changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changes: Table = table_of(catalog_in(folder), ("default", "t_changes"))
        self.files = 0

    def region(self, name: str, start: bytes, end: bytes, *files: Sequence[Cell], number: int = 5) -> SnapshotRegion:
        """A region with files, of which the first has the number `number`, and each further one the next number."""
        stored = []
        for at, cells in enumerate(files):
            self.files += 1
            path = f"data/default/t/{name}/fam/{self.files:032x}_SeqId_{number + at}_"
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(write(cells)[0])
            stored.append(StoreFile(b"fam", path.rpartition("/")[2], 100, (path, f"archive/{path}")))
        return SnapshotRegion("t", name, start, end, tuple(stored))

    def copy(self, task: LakeTask) -> LakeCopy:
        answer = LakeCopy.from_json(copy_to_lake(SimpleNamespace(), {"t": Target.of(self.changes)}, task).to_json())  # type: ignore[arg-type]
        assert why_wrong(task, answer, self.changes) == ""
        return answer

    def rows(self, *answers: LakeCopy) -> list[Any]:
        """The rows that the table of changes has once the answers are committed."""
        files = [file for answer in answers for file in answer.files]
        append_copy(self.changes, Batch("feed", "copy"), files, seen=Positions(), copied=FirstCopy("a"))
        self.changes.refresh()
        names = ("row", "family", "qualifier", "timestamp", "type", "value", "region", "sequence_id")
        found = self.changes.scan(selected_fields=names).to_arrow().to_pylist()
        return sorted(tuple(row[name] for name in names) for row in found)


def as_rows(cells: Sequence[Cell], region: str, number: int) -> list[Any]:
    return [(c.row, c.family, c.qualifier, c.timestamp, CellType(c.type).hbase_name, c.value, region, number) for c in cells]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    @contextmanager
    def session(*_: object, **__: object) -> Iterator[Any]:
        yield SimpleNamespace(source=SimpleNamespace(hbase_root=tmp_path.as_uri()))

    monkeypatch.setattr(module, "open_session", session)
    return Source(tmp_path)


def task(*regions: SnapshotRegion) -> LakeTask:
    return LakeTask("t", (b"fam", b"other"), tuple(Piece(each, each.start, each.end) for each in regions))


def below(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.row < MIDDLE]


def above(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.row >= MIDDLE]


def test_all_cells_of_all_files_are_copied_with_the_numbers_of_their_files(source: Source) -> None:
    first = source.region("one", b"", MIDDLE, below(SORTED)[::2], below(SORTED)[1::2], number=5)
    second = source.region("two", MIDDLE, b"", above(SORTED), number=9)
    answer = source.copy(task(first, second))
    assert answer.errors == ()
    assert [(rows.region, dict(rows.fences), rows.whole, rows.files) for rows in answer.rows] == [
        ("one", {"fam": 6, "other": -1}, True, 2), ("two", {"fam": 9, "other": -1}, True, 1),
    ]  # fmt: skip
    expected = as_rows(below(SORTED)[::2], "one", 5) + as_rows(below(SORTED)[1::2], "one", 6) + as_rows(above(SORTED), "two", 9)
    assert source.rows(answer) == sorted(expected)


def test_of_a_file_that_two_regions_refer_to_each_one_gets_its_rows(source: Source) -> None:
    parent = source.region("parent", b"", b"", SORTED)
    halves = [replace(parent, encoded_name="one", end=MIDDLE), replace(parent, encoded_name="two", start=MIDDLE)]
    assert source.rows(source.copy(task(*halves))) == sorted(as_rows(below(SORTED), "one", 5) + as_rows(above(SORTED), "two", 5))


def test_a_task_with_many_files_leaves_the_rest_of_a_region_to_others(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 0)
    monkeypatch.setattr(module, "PIECE_BYTES", 20_000)
    left, answers = [task(source.region("one", b"", MIDDLE, below(SORTED)), source.region("two", MIDDLE, b"", above(SORTED)))], []
    while left:
        answers.append(source.copy(left[0]))
        left = list(rest_of(left[0], answers[-1]))
    assert len(answers) > 5
    assert source.rows(*answers) == sorted(as_rows(below(SORTED), "one", 5) + as_rows(above(SORTED), "two", 5))


def broken(source: Source, monkeypatch: pytest.MonkeyPatch, how: str) -> str:
    """Make the region "bad" one that cannot be copied. Returns the reason that is given."""
    match how:
        case "gone":
            for path in source.folder.glob("data/default/t/bad/fam/*"):
                path.unlink()
            return "is in none of"
        case "no HFile":
            for path in source.folder.glob("data/default/t/bad/fam/*"):
                path.write_bytes(b"x" * 5000)
            return "no trailer of an HFile"
        case "number":
            return changed(monkeypatch, "sequence_id", lambda *_: 1 << 70, "too large to convert")
        case "rows":
            monkeypatch.setattr(module, "MAX_ROW_BYTES", 100)
            return "one of its rows has more than 100 bytes"
        case "memory":
            monkeypatch.setattr(module, "MOST_HELD", 100)
            return "bytes at once, more than 100. Or leave the table out"
        case "MOB":
            return changed(monkeypatch, "has_mob_values", property(lambda file: "/bad/" in file.url), "has values in MOB files")
        case _:
            changed(monkeypatch, "some_tags", property(lambda file: "/bad/" in file.url), "")
            return changed(monkeypatch, "tags_compressed", property(lambda _: True), "COMPRESS_TAGS => false")


def changed(monkeypatch: pytest.MonkeyPatch, name: str, value: Any, why: str) -> str:
    if name == "sequence_id":
        original: Callable[..., int] = HFile.sequence_id
        monkeypatch.setattr(HFile, name, lambda file, its: 1 << 70 if "/bad/" in file.url else original(file, its))
    else:
        monkeypatch.setattr(HFile, name, value)
    return why


@pytest.mark.parametrize("how", ["gone", "no HFile", "number", "MOB", "tags"])
def test_a_region_that_cannot_be_copied_is_named_and_its_neighbours_are_copied(
    source: Source, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    bad, good = source.region("bad", b"", MIDDLE, below(SORTED)), source.region("good", MIDDLE, b"", above(SORTED))
    why = broken(source, monkeypatch, how)
    answer = source.copy(task(bad, good))
    (error,) = answer.errors
    assert error.startswith("region bad of table t: ")
    assert why in error
    assert [rows.region for rows in answer.rows] == ["good"]
    assert source.rows(answer) == sorted(as_rows(above(SORTED), "good", 5))


@pytest.mark.parametrize("how", ["rows", "memory"])
def test_regions_that_need_too_much_memory_are_named(source: Source, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    whole = source.region("bad", b"", b"", SORTED[::2], SORTED[1::2])
    why = broken(source, monkeypatch, how)
    answer = source.copy(task(whole))
    assert (answer.rows, answer.files) == ((), ())
    assert why in answer.errors[0]


def test_a_file_that_moves_while_it_is_read_is_read_again(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, calls = module.open_store_file, list[None]()

    def moves(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == 2:
            raise FileNotFoundError("it was moved to the archive")
        return opened(*arguments, **named)

    monkeypatch.setattr(module, "open_store_file", moves)
    answer = source.copy(task(source.region("one", b"", b"", SORTED[::2], SORTED[1::2])))
    assert answer.errors == ()
    assert source.rows(answer) == sorted(as_rows(SORTED[::2], "one", 5) + as_rows(SORTED[1::2], "one", 6))


def test_a_task_in_which_many_regions_cannot_be_copied_gives_up(source: Source) -> None:
    regions = []
    borders = [b"", *sorted(random.Random(1).sample([b"%03d" % n for n in range(100)], 5)), b""]
    for number in range(6):
        regions.append(source.region(f"bad{number}", borders[number], borders[number + 1], SORTED[:5]))
    for path in source.folder.glob("data/default/t/*/fam/*"):
        path.unlink()
    answer = source.copy(task(*regions))
    assert len(answer.errors) == module.MOST_ERRORS + 1
    assert answer.errors[-1] == "table t: 3 regions, of which bad3 is the first, are left"


def test_a_table_that_cannot_be_written_is_an_error_of_the_whole_task(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.DataFiles, "add", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    answer = source.copy(task(source.region("one", b"", b"", SORTED)))
    assert answer.rows == ()
    assert answer.errors[0] == "table t: OSError: the disk is full"


def test_a_file_of_a_bulk_load_without_a_number_says_nothing_about_the_region_s_edits(source: Source) -> None:
    region = source.region("one", b"", b"", SORTED)
    (stored,) = region.files
    name = stored.name.partition("_")[0]
    (source.folder / stored.places[0]).rename(source.folder / stored.places[0].replace(stored.name, name))
    places = tuple(place.replace(stored.name, name) for place in stored.places)
    answer = source.copy(task(replace(region, files=(replace(stored, name=name, places=places),))))
    assert [dict(rows.fences) for rows in answer.rows] == [{"fam": -1, "other": -1}]
    assert len(source.rows(answer)) == len(SORTED)
