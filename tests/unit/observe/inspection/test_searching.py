"""One file is searched where it lies by then."""

from pathlib import Path

from tests.unit.cli.test_wal import SERVER, WAL, put, written
from tests.unit.hbase.wal.encoder import encode_wal
from walferry.observe.inspection.layouts import json_layout
from walferry.observe.inspection.searching import Answer, Question, search
from walferry.observe.inspection.selection import Selection

EVERYTHING = Question(Selection(), json_layout)


def test_a_file_that_is_archived_meanwhile_is_read_there(tmp_path: Path) -> None:
    archived = put(tmp_path / "oldWALs" / WAL.format(1), encode_wal(written(1)))
    listed = f"file://{tmp_path}/WALs/{SERVER}/{WAL.format(1)}"
    *parts, answer = search(listed, EVERYTHING)
    assert [part for part in parts if f'"wal":"file://{archived}"'.encode() in bytes(part)] == parts != []
    assert answer == Answer(f"file://{archived}", archived.stat().st_size, 1)


def test_a_file_that_is_deleted_meanwhile_is_named(tmp_path: Path) -> None:
    for url in (
        f"file://{tmp_path}/WALs/{SERVER}/{WAL.format(1)}",
        f"file://{tmp_path}/WALs/x/y",
        f"file://{tmp_path}/{WAL.format(1)}",
    ):
        assert list(search(url, EVERYTHING)) == [Answer(url, problem=f"{url}: there is no such file")]
