"""A run treats broken WALs as its settings say, between two real clusters."""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from embedded.client import GLOBAL
from embedded.wire import put
from tests.cluster.dead_queues import DeadQueue, Recording, record
from tests.cluster.test_bad_input import BROKEN, ROWS, begin, flipped, rows_at, rows_up_to
from tests.cluster.test_shipping import archive
from tests.cluster.walferry_runs import plan, positions, roll, ship
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files import systems
from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.values import encode_position
from walferry.hbase.wal.scan import scan_entries
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.shipping import giving_up


@pytest.fixture
def recording(sides, both) -> Recording:
    return record(sides.source, both({"f": GLOBAL}), ROWS)


@pytest.fixture
def queue(sides, recording, peer) -> DeadQueue:
    return DeadQueue(sides.at, sides.source, peer)


@pytest.fixture
def at(sides, tmp_path) -> SourceCluster:
    """The source, with a place for broken WALs."""
    return replace(sides.at, quarantine=f"file://{tmp_path}/put/aside")


def ship_queue(at: SourceCluster, peer: str, queue: DeadQueue, policy: BrokenWals) -> GroupSummary:
    (summary,) = ship(at, peer, roll_first=False, groups=[queue.group], broken_wals=policy, run_id=f"run {policy}")
    return summary


def broken(recording: Recording) -> bytes:
    """The put number BROKEN has a cell whose length is wrong."""
    return flipped(recording.content, begin(recording) + 1)


def test_quarantine_ships_what_is_whole_puts_the_file_aside_and_goes_on(sides, at, peer, both, queue, recording, tmp_path):
    other = record(sides.source, both({"f": GLOBAL}), 5)
    wal = queue.add(broken(recording))
    queue.add(other.content)
    summary = ship_queue(at, peer, queue, BrokenWals.QUARANTINE)
    assert summary.status is Status.DONE, summary.error
    assert (summary.completedLogs, summary.quarantinedLogs) == (2, 1)
    assert summary.skippedBytes == len(recording.content) - begin(recording)
    assert queue.positions() == {}
    assert rows_at(sides.peer_cluster, recording.table) == rows_up_to(BROKEN)
    assert sides.source.compare(other.table, sides.peer_cluster).same

    assert (tmp_path / "put" / "aside" / wal.name).read_bytes() == broken(recording)
    note = json.loads((tmp_path / "put" / "aside" / f"{wal.name}.{peer}.json").read_text())
    assert (note["wal"], note["peer"], note["shipped_to"]) == (wal.name, peer, begin(recording))
    assert f"begins at byte {begin(recording)}" in note["error"]
    assert wal.read_bytes() == broken(recording)  # HBase's own copy is never touched


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int], None]:
    """`lose(file, offset)` → the disk no longer returns this byte of the file."""
    lost: dict[int, int] = {}
    read_fd = systems.read_fd

    def read(fd: int, offset: int, length: int) -> bytes:
        if offset <= lost.get(os.fstat(fd).st_ino, -1) < offset + length:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read_fd(fd, offset, length)

    monkeypatch.setattr(systems, "read_fd", read)
    return lambda file, offset: lost.update({file.stat().st_ino: offset})


def test_a_wal_with_a_lost_byte_is_its_group_s_trouble(sides, at, peer, both, queue, recording, lose, tmp_path):
    """The plan opens the WAL because it is small. Entries before the byte are shipped, and the rest of the file is put aside."""
    wal = queue.add(recording.content)
    lose(wal, at_byte := begin(recording) + 1)
    beside = DeadQueue(sides.at, sides.source, peer)
    other = record(sides.source, both({"f": GLOBAL}), 5)
    beside.add(other.content)
    problems = {group.group: group.problem for group in plan(at, peer).groups}
    assert problems[beside.group] is None
    assert problems[queue.group] is not None
    assert f"file://{wal} at byte {at_byte}: the disk does not give these bytes" in problems[queue.group]

    summaries = {summary.group: summary for summary in ship(at, peer, roll_first=False, groups=[queue.group, beside.group])}
    assert summaries[beside.group].status is Status.DONE
    assert sides.source.compare(other.table, sides.peer_cluster).same
    stopped = summaries[queue.group]
    assert stopped.status is Status.FAILED
    assert f"file://{wal} at byte {at_byte}: " in stopped.error
    assert "Ways out: " in stopped.error
    assert queue.positions() == {wal.name: begin(recording)}

    kept = replace(at, archive=f"file://{tmp_path}/archive")  # the archive gets no copy with holes
    summary = ship_queue(kept, peer, queue, BrokenWals.QUARANTINE)
    assert (summary.status, summary.quarantinedLogs) == (Status.DONE, 1), summary.error
    assert summary.skippedBytes == len(recording.content) - begin(recording)
    assert queue.positions() == {}
    assert rows_at(sides.peer_cluster, recording.table) == rows_up_to(BROKEN)
    left = (tmp_path / "put" / "aside" / wal.name).read_bytes()
    note = json.loads((tmp_path / "put" / "aside" / f"{wal.name}.{peer}.json").read_text())
    assert note["lost"] == [[at_byte, len(left)]]
    assert left == recording.content[:at_byte] + bytes(len(recording.content) - at_byte)
    assert not (tmp_path / "archive").exists()


def test_a_wal_of_0_bytes_is_passed_over_and_leaves_its_queue(sides, at, peer, queue, recording):
    """HBase's own replication stops there: its server died before it had written the header."""
    queue.add(recording.content)
    queue.add(b"")
    queue.add(b"")
    summary = ship_queue(at, peer, queue, BrokenWals.STOP)
    assert (summary.status, summary.completedLogs) == (Status.DONE, 3), summary.error
    assert queue.positions() == {}
    assert rows_at(sides.peer_cluster, recording.table) == rows_up_to(ROWS)


@pytest.mark.parametrize("policy", [BrokenWals.STOP, BrokenWals.WHOLE_ENTRIES])
def test_without_being_asked_to_nothing_is_given_up(sides, at, peer, queue, recording, policy, tmp_path):
    wal = queue.add(broken(recording))
    summary = ship_queue(at, peer, queue, policy)
    assert summary.status is Status.FAILED
    assert f"file://{wal} at byte" in summary.error
    assert "Ways out: " in summary.error
    assert queue.positions() == {wal.name: begin(recording)}
    assert not (tmp_path / "put").exists()


def looked_at(at: SourceCluster, peer: str, wal: Path) -> giving_up.Damage:
    with open_session(at) as session:
        return giving_up.look(session, peer, wal.name)


def permit(at: SourceCluster, peer: str, damage: giving_up.Damage) -> None:
    with open_session(at) as session:
        giving_up.permit(session, peer, damage, "ola")


@pytest.mark.parametrize("shipped_before", [False, True])
def test_a_person_s_permission_gives_up_just_what_was_looked_at(
    sides, at, peer, both, queue, recording, tmp_path, shipped_before
):
    other = record(sides.source, both({"f": GLOBAL}), 5)
    wal = queue.add(broken(recording))
    queue.add(other.content)
    if shipped_before:
        assert ship_queue(at, peer, queue, BrokenWals.STOP).status is Status.FAILED
    damage = looked_at(at, peer, wal)
    assert (damage.begins, damage.ends, damage.behind) == (begin(recording), len(recording.content), 1)
    assert damage.url == f"file://{wal}"
    assert f"begins at byte {begin(recording)}" in damage.error
    permit(at, peer, damage)
    summary = ship_queue(at, peer, queue, BrokenWals.STOP)
    assert (summary.status, summary.quarantinedLogs) == (Status.DONE, 1), summary.error
    assert summary.skippedBytes == len(recording.content) - begin(recording)
    assert queue.positions() == {}
    assert rows_at(sides.peer_cluster, recording.table) == rows_up_to(BROKEN)
    assert sides.source.compare(other.table, sides.peer_cluster).same
    assert (tmp_path / "put" / "aside" / wal.name).read_bytes() == broken(recording)


def test_damage_that_only_the_filters_see_is_looked_at_and_given_up_too(sides, at, peer, queue, recording):
    """The WALKey's scopes of put number BROKEN name families that are longer than they are, and those of a later put, too."""
    content = bytearray(recording.content)
    for number in (BROKEN + 5, BROKEN):
        before = recording.entries[recording.entries.index(recording.puts[number]) - 1].end
        content[content.index(b"\x32\x05\x0a\x01f\x10\x01", before) + 3] = 100  # of the family in WALKey.scopes
    wal = queue.add(bytes(content))
    assert ship_queue(at, peer, queue, BrokenWals.STOP).status is Status.FAILED
    damage = looked_at(at, peer, wal)
    assert "cannot be parsed" in damage.error
    assert (damage.begins, damage.of_archive) == (begin(recording), False)
    assert queue.positions() == {wal.name: damage.begins}
    permit(at, peer, damage)
    assert ship_queue(at, peer, queue, BrokenWals.STOP).status is Status.DONE
    assert rows_at(sides.peer_cluster, recording.table) == rows_up_to(BROKEN)


def test_a_permission_for_other_bytes_gives_up_nothing(sides, at, peer, queue, recording, tmp_path):
    wal = queue.add(broken(recording))
    damage = looked_at(at, peer, wal)
    for other in (
        replace(damage, begins=damage.begins + 1), replace(damage, ends=damage.ends - 1), replace(damage, wal=f"{wal.name}0"),
    ):  # fmt: skip
        permit(at, peer, other)
        summary = ship_queue(at, peer, queue, BrokenWals.STOP)
        assert summary.status is Status.FAILED
        assert queue.positions() == {wal.name: begin(recording)}
    assert not (tmp_path / "put").exists()


def test_what_became_sound_is_shipped_in_spite_of_a_permission(sides, at, peer, queue, recording, tmp_path):
    wal = queue.add(broken(recording))
    permit(at, peer, looked_at(at, peer, wal))
    wal.write_bytes(recording.content)
    with pytest.raises(giving_up.NotBroken, match="can be read to its end"):
        looked_at(at, peer, wal)
    assert ship_queue(at, peer, queue, BrokenWals.STOP).quarantinedLogs == 0
    assert rows_at(sides.peer_cluster, recording.table) == rows_up_to(ROWS)
    assert not (tmp_path / "put").exists()


def test_the_end_of_a_dead_server_s_last_wal_is_not_given_up(sides, at, peer, queue, recording):
    wal = queue.add(recording.content[: recording.entries[-1].end - 3])
    with pytest.raises(giving_up.NotBroken):
        looked_at(at, peer, wal)


def test_a_shipped_wal_that_the_archive_cannot_get_is_looked_at_from_its_begin(sides, at, peer, queue, recording, lose, tmp_path):
    wal = queue.add(recording.content, b"")
    queue.set_position(wal, encode_position(recording.entries[-1].end))
    lose(wal, begin(recording))
    with pytest.raises(giving_up.NotBroken):
        looked_at(at, peer, wal)
    kept = replace(at, archive=f"file://{tmp_path}/archive")
    damage = looked_at(kept, peer, wal)
    assert (damage.begins, damage.ends, damage.of_archive) == (recording.entries[-1].end, len(recording.content), True)
    permit(kept, peer, damage)
    summary = ship_queue(kept, peer, queue, BrokenWals.STOP)
    assert (summary.status, summary.quarantinedLogs) == (Status.DONE, 1), summary.error
    assert queue.positions() == {}


def test_without_a_folder_for_it_nothing_is_put_into_quarantine(sides, peer, queue, recording):
    wal = queue.add(broken(recording))
    summary = ship_queue(sides.at, peer, queue, BrokenWals.QUARANTINE)
    assert summary.status is Status.FAILED
    assert queue.positions() == {wal.name: begin(recording)}


def seemingly_cut_off(recording: Recording) -> bytes:
    """The file has no trailer, and a cell of the put number BROKEN claims more bytes than the file has."""
    content = bytearray(recording.content[: recording.entries[-1].end])
    data = np.frombuffer(bytes(content[begin(recording) :]), np.uint8)
    cell = begin(recording) + int(scan_entries(data, 0, len(data)).index.cells_start[0])
    kv_len, key_len, val_len = struct.unpack_from(">iii", content, cell)
    struct.pack_into(">iii", content, cell, kv_len + (1 << 20), key_len, val_len + (1 << 20))
    return bytes(content)


@pytest.mark.parametrize("policy", [BrokenWals.STOP, BrokenWals.WHOLE_ENTRIES])
def test_damage_that_looks_like_the_end_of_a_dead_servers_wal_stops_it(sides, at, peer, queue, recording, policy):
    wal = queue.add(seemingly_cut_off(recording))
    summary = ship_queue(at, peer, queue, policy)
    assert summary.status is Status.FAILED
    assert f"file://{wal} at byte {begin(recording)}: " in summary.error
    assert f"another one begins at byte {recording.puts[BROKEN].end}" in summary.error
    assert queue.positions() == {wal.name: begin(recording)}


def test_damage_that_looks_like_the_end_is_put_aside_and_written_down(sides, at, peer, queue, recording, tmp_path):
    content = seemingly_cut_off(recording)
    wal = queue.add(content)
    summary = ship_queue(at, peer, queue, BrokenWals.QUARANTINE)
    assert (summary.status, summary.quarantinedLogs) == (Status.DONE, 1), summary.error
    assert summary.skippedBytes == len(content) - begin(recording)
    assert (tmp_path / "put" / "aside" / wal.name).read_bytes() == content


def cut_off_while_its_server_lives(sides, at: SourceCluster, peer: str, table: str) -> Path:
    """A live server's WAL that was archived with only part of its last entry. No server does that, but a file system may."""
    sides.source.write(table, [put(f"row{i:04}", {"f:q": b"v" * 50}) for i in range(10)], one_by_one=True)
    roll(at, peer)
    (group,) = plan(at, peer).groups
    archive(sides, [wal.name for wal in group.wals])
    wal = Path(at.wal_root.removeprefix("file://")) / "oldWALs" / group.wals[-1].name
    wal.write_bytes(wal.read_bytes()[:-30])
    return wal


def test_a_file_without_its_end_is_put_aside_and_written_down_if_that_was_asked_for(sides, at, peer, both, tmp_path):
    table = both()
    wal = cut_off_while_its_server_lives(sides, at, peer, table)
    (summary,) = ship(at, peer, roll_first=False, broken_wals=BrokenWals.QUARANTINE)
    assert (summary.status, summary.quarantinedLogs) == (Status.DONE, 1), summary.error
    assert 0 < summary.skippedBytes < 200
    assert (tmp_path / "put" / "aside" / wal.name).read_bytes() == wal.read_bytes()
    assert rows_at(sides.peer_cluster, table) == [f"row{i:04}" for i in range(9)]


def test_a_file_without_its_end_ends_with_its_last_whole_entry_if_that_was_asked_for(sides, at, peer, both):
    table = both()
    wal = cut_off_while_its_server_lives(sides, at, peer, table)
    (failed,) = ship(at, peer, roll_first=False)
    assert failed.status is Status.FAILED
    assert "the file ends early" in failed.error
    assert wal.name in positions(at, peer)
    (done,) = ship(at, peer, roll_first=False, broken_wals=BrokenWals.WHOLE_ENTRIES, run_id="again")
    assert (done.status, done.uncleanlyClosedLogs) == (Status.DONE, 1), done.error
    assert rows_at(sides.peer_cluster, table) == [f"row{i:04}" for i in range(9)]
    assert wal.name not in positions(at, peer)
