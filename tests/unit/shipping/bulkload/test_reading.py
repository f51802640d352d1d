"""Real WAL files are surveyed, and become runs. An error in one WAL is never hidden, and never spoils the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.hbase.wal.compressing import Encoder, compress
from tests.unit.hbase.wal.encoder import Cell, encode_entry, encode_header, encode_wal
from tests.unit.hbase.wal.sealed import WAL_KEY, encode_sealed
from tests.unit.replication.filters.test_entry_filter import GLOBAL, OTHER, PEER_CLUSTER, RULES, entry, put
from tests.unit.replication.filters.test_visibility import SECRET
from tests.unit.replication.sinks.hbase.test_bulk_loads import descriptor, load
from tests.unit.shipping.bulkload.jobs import targets
from tests.unit.shipping.bulkload.wal_files import GOOD, GROUP, SERVER, Files, Read, files
from walferry.hbase.files.store import WalStore
from walferry.hbase.wal.cells import TagType, encode_tag
from walferry.jobs.connect.connect_job import MAX_TEXT_CHARS
from walferry.load.earlier_loads import LoadedBefore
from walferry.load.records import Load
from walferry.replication.filters.rules import PeerTables
from walferry.replication.source.cluster import SourceCluster, VisibilityLabels
from walferry.shipping import closed_wal
from walferry.shipping.bulkload import reading, survey
from walferry.shipping.bulkload.survey import WalSurvey

__all__ = ["files"]  # a fixture


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "seconds_to_close", lambda left, *, live: 0.0)


@pytest.mark.slow
def test_cells_come_as_runs_of_the_regions_that_have_their_rows(files: Files) -> None:
    files.put(0, GOOD)
    files.put(1, [entry(put(row=b"c"), table=b"u")])
    found = Read(files.job(wals=files.wals(2)))
    assert found.runs == {
        (0, 0, 0): [put(row=b"a"), put(row=b"b")], (0, 1, 0): [put(row=b"z")], (1, 2, 0): [put(row=b"c")],
    }  # fmt: skip
    assert found.nothing_is_left_out
    report = found.reports[0]
    assert (report.end, report.clean, report.read_edits, report.others) == (len(encode_wal(GOOD)) - 8, True, 2, False)
    assert report.tables.keys() == {"t"}
    assert report.tables["t"][:2] == [2, 3]
    assert found.reports[1].tables.keys() == {"u"}


def test_a_survey_says_which_other_peers_get_other_edits(files: Files) -> None:
    """An edit that came from a peer's cluster does not go back there, and a bulk load may be of files that one of them has."""
    files.put(0, GOOD)
    files.put(1, [*GOOD, entry(put(), ids=(OTHER,))])
    files.put(2, [*GOOD, load(scopes={})])
    same, elsewhere = files.job(), files.job(rules=replace(RULES, peer_cluster_id=OTHER))
    less = files.job(rules=replace(RULES, tables=PeerTables(exclude_namespaces=frozenset([b"default"]))))
    made = files.job(wals=files.wals(3), also=(same, elsewhere, less))
    assert [survey.survey_wal(made, number).differs for number in range(3)] == [(2,), (1, 2), (0, 1, 2)]


def test_reading_begins_at_the_position(files: Files) -> None:
    files.put(0, GOOD)
    position = len(encode_header() + encode_entry(GOOD[0]))
    found = Read(files.job(wals=files.wals(1, position=position)))
    assert list(found.runs.values()) == [[put(row=b"b")]]
    end = found.reports[0].end
    again = Read(files.job(wals=files.wals(1, position=end)))
    assert (again.runs, again.reports[0].end, again.reports[0].tables) == ({}, 0, {})


def test_a_server_that_died_before_it_wrote_anything_has_left_nothing(files: Files) -> None:
    files.put(0, b"")
    files.put(1, GOOD)
    found = Read(files.job(wals=files.wals(2)))
    assert (found.nothing_is_left_out, found.reports[0].clean, found.reports[0].end) == (True, False, 0)
    assert found.reports[1].tables


def test_what_a_dead_server_s_end_cut_off_is_left_out_and_counted(files: Files) -> None:
    whole = len(encode_header() + encode_entry(GOOD[0]))
    data = encode_wal(GOOD, trailer=b"")[:-5]
    files.put(0, data)
    files.put(1, GOOD)
    found = Read(files.job(wals=files.wals(2)))
    assert found.nothing_is_left_out
    assert found.runs[0, 0, 0] == [put(row=b"a")]
    report = found.reports[0]
    assert (report.end, report.clean, report.ignored) == (whole, False, len(data) - whole)
    assert found.reports[1].ignored == 0


BROKEN: dict[str, Callable[[Files], object]] = {
    "corrupt": lambda files: files.put(1, encode_wal(GOOD, trailer=b"") + b"\x05" + b"\xff" * 200),
    "not a WAL": lambda files: files.put(1, b"PWAX" + bytes(100)),
    "another key": lambda files: files.put(1, encode_sealed(GOOD)),
    "missing": lambda files: None,
    "not closed": lambda files: files.put(1, encode_wal(GOOD, trailer=b""), f"WALs/{SERVER}"),
    "a family that the peer cluster lacks": lambda files: files.put(
        1, [entry(put(), put(family=b"g"), scopes={b"f": GLOBAL, b"g": GLOBAL})]
    ),
    "a folder": lambda files: (files.root / "oldWALs" / f"{GROUP}.1").mkdir(),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_wal_that_cannot_be_loaded_ends_its_group_and_no_other(files: Files, how: str) -> None:
    for number in (0, 2, 3):
        files.put(number, GOOD)
    BROKEN[how](files)
    found = Read(files.job(wals=files.wals(3, 1)))
    assert found.errors == [(1, 3)]
    assert all(found.wanted.errors.values())
    assert found.reports.keys() == {0, 3}
    assert {wal for wal, _, _ in found.runs} <= {0, 1, 3}


def test_an_error_without_words_is_noted(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.put(0, GOOD)
    files.put(1, GOOD)

    def silent(*_: object, **__: object) -> Any:
        raise TimeoutError

    monkeypatch.setattr(WalStore, "open", silent)
    found = Read(files.job(wals=files.wals(1, 1)))
    assert found.wanted.errors == {0: "TimeoutError", 1: "TimeoutError"}


def test_a_wal_that_is_archived_while_it_is_opened_is_found_again(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    written = files.put(0, GOOD, f"WALs/{SERVER}")
    real = closed_wal._batches_of_file

    def archive_first(*arguments: Any) -> Any:
        if written.exists():
            os.rename(written, files.root / "oldWALs" / written.name)
            raise FileNotFoundError(written)
        return real(*arguments)

    monkeypatch.setattr(closed_wal, "_batches_of_file", archive_first)
    found = Read(files.job(wals=files.wals(1)))
    assert (found.nothing_is_left_out, found.reports[0].tables["t"][1]) == (True, 3)


def test_the_deadline_ends_each_group_where_it_is(files: Files) -> None:
    for number in range(3):
        files.put(number, GOOD)
    found = Read(files.job(wals=files.wals(2, 1), deadline=0.0))
    assert (found.errors, found.runs, found.reports) == ([(0, 2), (2, 3)], {}, {})


def test_a_table_with_labelled_cells_is_left_out_of_the_whole_load_unless_labels_are_shipped_as_they_are(files: Files) -> None:
    labelled = Cell(b"a", b"f", b"q", 1, 4, b"value", SECRET)
    files.put(0, [*GOOD, entry(labelled, table=b"u")])
    found = Read(files.job(wals=files.wals(1)))
    assert found.unfit == {"u": "it has cells with visibility labels"}
    assert not found.errors
    assert found.reports[0].tables.keys() == {"t", "u"}, "the group is not whole, as u is not loaded"
    files.source = SourceCluster(quorum="zk:2181", wal_root=files.source.wal_root, visibility_labels=VisibilityLabels.SHIP)
    assert Read(files.job(wals=files.wals(1))).nothing_is_left_out


def test_a_table_with_bulk_loads_is_left_out_of_the_whole_load(files: Files) -> None:
    files.put(0, [*GOOD, load(table=b"u"), entry(put(), table=b"u")])
    files.source = SourceCluster(
        quorum="zk:2181", wal_root=files.source.wal_root, replication_cluster_id="east", root_dir="hdfs://nn/hbase"
    )
    found = Read(files.job(wals=files.wals(1)))
    assert list(found.unfit) == ["u"]
    assert "bulk loads" in found.unfit["u"]
    assert found.reports[0].others


@pytest.mark.parametrize("scopes", [{}, {b"g": 1}], ids=["not replicated", "another family"])
def test_a_bulk_load_that_the_peer_does_not_get_leaves_no_table_out_and_its_files_are_let_go(
    files: Files, scopes: dict[bytes, int]
) -> None:
    files.put(0, [*GOOD, load(scopes=scopes)])
    found = Read(files.job(wals=files.wals(1)))
    assert (found.nothing_is_left_out, found.reports[0].others, found.reports[0].let_go) == (True, False, ["one_SeqId_7_"])


@pytest.mark.parametrize("count", [15_000, 24_000, 50_000])
def test_a_wal_with_very_many_files_of_such_bulk_loads_is_left_to_requests_and_its_report_can_be_read(
    files: Files, count: int
) -> None:
    names = [f"{i:032x}_SeqId_7_" for i in range(count)]
    loads = [load(descriptor({b"f": names[start : start + 5000]}), scopes={}) for start in range(0, len(names), 5000)]
    files.put(0, [*loads, *GOOD])
    report = Read(files.job(wals=files.wals(1))).reports[0]
    assert report.others == (count > 15_000)
    assert len(WalSurvey(report).to_json()) < MAX_TEXT_CHARS


@pytest.mark.parametrize("time", [1 << 63, (1 << 63) - 1, (1 << 64) - 1])
def test_the_report_of_a_wal_can_be_read_whatever_its_times(files: Files, time: int) -> None:
    odd = entry(put(row=b"b"))
    odd.key.write_time = time
    files.put(0, [*GOOD, odd])
    assert Read(files.job(wals=files.wals(1))).reports[0].tables["t"][0] == 3


def test_bulk_loads_that_the_connection_leaves_out_are_counted_as_filtered(files: Files) -> None:
    files.put(0, [*GOOD, load()])
    files.source = SourceCluster(quorum="zk:2181", wal_root=files.source.wal_root, skip_bulk_loads=True)
    found = Read(files.job(wals=files.wals(1)))
    assert (found.nothing_is_left_out, found.reports[0].others, found.reports[0].filtered) == (True, False, {"bulk_load": 1})


def test_a_bulk_load_that_must_stop_the_queue_ends_the_group(files: Files) -> None:
    files.put(0, [*GOOD, load()])
    assert Read(files.job(wals=files.wals(1))).errors == [(0, 1)]


def test_what_is_unfit_is_told_of_a_wal_that_breaks_later_too(files: Files) -> None:
    labelled = Cell(b"a", b"f", b"q", 1, 4, b"value", SECRET)
    files.put(0, encode_wal([entry(labelled)], trailer=b"") + b"\x05" + b"\xff" * 200)
    found = Read(files.job(wals=files.wals(1)))
    assert (found.errors, list(found.unfit)) == ([(0, 1)], ["t"])


def test_edits_of_tables_that_are_not_fit_and_of_none_at_the_peer_cluster_are_others(files: Files) -> None:
    files.put(0, [*GOOD, entry(put(), table=b"elsewhere"), entry(put(), table=b"caf\xe9")])
    files.put(1, [entry(put(), table=b"unfit")])
    tables = targets(b"t", unfit={b"unfit": "it has a coprocessor"})
    found = Read(files.job(wals=files.wals(2), targets=tables))
    assert (found.nothing_is_left_out, [found.reports[number].others for number in (0, 1)]) == (True, [True, True])
    assert [list(found.reports[number].tables) for number in (0, 1)] == [["t"], []]


def test_what_the_peer_does_not_get_is_neither_loaded_nor_left_over(files: Files) -> None:
    files.put(0, [entry(put(), scopes={}), entry(put(), ids=(PEER_CLUSTER,)), entry(put(), table=b"hbase:meta")])
    report = Read(files.job(wals=files.wals(1))).reports[0]
    assert (report.tables, report.others, report.end > 0) == ({}, False, True)
    assert report.filtered == {"not_global": 1, "from_peer_cluster": 1, "system_table": 1}


def test_what_is_older_than_an_initial_snapshot_is_neither_loaded_nor_left_over_and_younger_edits_are(files: Files) -> None:
    copied = Load("copy", {GROUP: f"{GROUP}.0"}, done=True, tables={"t": ("f",)}, initial_snapshot=True)
    for number in (0, 1):
        files.put(number, [entry(put()), entry(put(), table=b"u")])
    found = Read(files.job(wals=files.wals(2), before=LoadedBefore([copied])))
    older, younger = (found.reports[number] for number in (0, 1))
    assert (list(older.tables), older.others, older.filtered) == (["u"], False, {"copied": 1})
    assert (list(younger.tables), younger.others, younger.filtered) == (["t", "u"], False, {})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compressed", "encrypted"])
def test_files_of_all_forms_give_the_same_runs(files: Files, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    plain, other = files.put(0, GOOD), files.root / "oldWALs" / f"{GROUP}.1"
    other.write_bytes(compress(GOOD, Encoder(tags=True, codec=None))[0] if form == "compressed" else encode_sealed(GOOD))
    monkeypatch.setattr(SourceCluster, "keys", lambda source: lambda wrapped: WAL_KEY)
    found = Read(files.job(wals=files.wals(1, 1)))
    assert plain.read_bytes() != other.read_bytes()
    assert found.nothing_is_left_out
    for region in (0, 1):
        assert found.runs[0, region, 0] == found.runs[1, region, 0]
    assert found.reports[1].end < other.stat().st_size


ROWS = st.sampled_from([b"a", b"b", b"m", b"z"])
EDITS = st.lists(st.tuples(st.sampled_from([b"t", b"u", b"elsewhere"]), st.lists(ROWS, min_size=1, max_size=4)), max_size=6)


@settings(max_examples=40)
@given(edits=EDITS)
def test_each_cell_is_in_a_run_or_left_to_requests(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[bytes, list[bytes]]]
) -> None:
    files = Files(tmp_path_factory.mktemp("root"))
    files.put(0, [entry(*(put(row=row) for row in rows), table=table) for table, rows in edits])
    found = Read(files.job(wals=files.wals(1)))
    report = found.reports[0]
    for number, table in enumerate((b"t", b"u")):
        rows = sorted(row for name, some in edits if name == table for row in some)
        mine = [cell for region in (2 * number, 2 * number + 1) for cell in found.runs.get((0, region, 0), ())]
        assert [cell.row for cell in mine] == rows
        assert report.tables.get(table.decode(), [0, 0])[1] == len(rows)
    assert report.others == any(name == b"elsewhere" for name, _ in edits)


def test_a_table_with_expressions_of_labels_is_left_out_whatever_happens_to_labels(files: Files) -> None:
    words = encode_tag(TagType.TTL, bytes(8)) + encode_tag(TagType.VISIBILITY_EXPRESSION, b"secret&!public")
    files.put(0, [*GOOD, entry(put(), Cell(b"a", b"f", b"q", 1, 4, b"value", words), table=b"u")])
    files.source = SourceCluster(quorum="zk:2181", wal_root=files.source.wal_root, visibility_labels=VisibilityLabels.SHIP)
    found = Read(files.job(wals=files.wals(1)))
    assert found.unfit == {"u": "it has cells with visibility expressions, which the peer cluster reads only if they are put"}
    assert found.reports[0].tables.keys() == {"t", "u"}


def test_what_follows_a_wal_that_is_not_closed_is_not_waited_for(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that is busy splitting a dead server's WALs leaves all of them open."""
    waited: list[bool] = []
    monkeypatch.setattr(reading, "seconds_to_close", lambda left, *, live: waited.append(live) or 0.0)
    for number in range(4):
        files.put(number, encode_wal(GOOD, trailer=b""), f"WALs/{SERVER}")
    found = Read(files.job(wals=files.wals(3, 1), record="/record of this test"))
    assert found.errors == [(0, 3), (3, 4)]
    assert len(waited) == 2


def test_a_wal_of_very_many_regions_is_left_to_requests(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MAX_REGIONS", 1)
    files.put(0, GOOD)
    found = Read(files.job(wals=files.wals(1), record="/another record"))
    assert found.wanted.errors == {0: f"{GROUP}.0 has edits of 2 regions, more than 1"}
