"""A file describes its content."""

from __future__ import annotations

import struct

from hypothesis import given

from tests.unit.hbase.hfiles.models import stored
from tests.unit.hbase.hfiles.reading import read
from tests.unit.hbase.hfiles.writing import CELLS, ORIGIN, SETTINGS, key_of, write
from tests.unit.hbase.wal.encoder import DELETE_COLUMN, DELETE_FAMILY, PUT, Cell
from walferry.hbase.hfiles.settings import FileSettings


@given(CELLS, SETTINGS)
def test_a_file_tells_what_is_in_it(cells: list[Cell], settings: FileSettings) -> None:
    info = read(write(cells, settings)[0], slow_checksums=False).info
    sizes = [len(stored(cell)) + 4 - (0 if cell.tags else 2) for cell in cells]
    times = [cell.timestamp for cell in cells]
    deletes_all = [0 for cell in cells if cell.type in (DELETE_COLUMN, DELETE_FAMILY)]
    puts = [cell.timestamp for cell in cells if cell.type == PUT]
    assert struct.unpack(">qq", info[b"TIMERANGE"]) == (min(times + deletes_all), max(times))
    assert struct.unpack(">q", info[b"EARLIEST_PUT_TS"]) == (min(puts, default=(1 << 63) - 1),)
    assert info[b"hfile.LASTKEY"] == key_of(cells[-1])
    assert struct.unpack(">q", info[b"hfile.LEN_OF_BIGGEST_CELL"]) == (max(sizes),)
    assert info[b"hfile.KEY_OF_BIGGEST_CELL"] == key_of(cells[sizes.index(max(sizes))])
    assert int.from_bytes(info[b"hfile.AVG_KEY_LEN"]) == sum(len(key_of(cell)) for cell in cells) // len(cells)
    assert int.from_bytes(info[b"hfile.AVG_VALUE_LEN"]) == sum(len(cell.value) for cell in cells) // len(cells)
    assert int.from_bytes(info[b"hfile.MAX_TAGS_LEN"]) == max(len(cell.tags) for cell in cells)
    assert (info[b"BULKLOAD_TIMESTAMP"], info[b"BULKLOAD_SOURCE_TASK"]) == (ORIGIN.created_ms.to_bytes(8), b"a task")
    assert info.get(b"DATA_BLOCK_ENCODING", b"NONE") == settings.encoding.name.encode()
    assert info[b"MAJOR_COMPACTION_KEY"] == b"\0"
