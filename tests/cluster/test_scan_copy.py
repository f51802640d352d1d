"""Regions whose files cannot be copied are scanned, and the peer cluster gets all their versions and deletes."""

from __future__ import annotations

from embedded.client import GLOBAL
from tests.cluster.conftest import Sides
from tests.cluster.copies import MIXED, Copies, copies, source_table
from walferry.hbase.hfiles.ends import FileEnd
from walferry.initial_snapshot import files_copy
from walferry.initial_snapshot.files_copy import copy_file

__all__ = ["copies", "source_table"]  # fixtures


def test_halves_of_a_split_region_are_scanned_with_all_versions_and_deletes(sides: Sides, copies: Copies, source_table):
    table = source_table({"f": GLOBAL}, versions=3)
    sides.source.switch_compaction(table, False)  # a compaction makes whole files of the halves
    sides.source.write(table, MIXED, one_by_one=True)
    sides.source.flush(table)
    (region,) = sides.source.regions(table)
    sides.source.split_region(region.encoded_name, b"r5")
    copied = copies.run(table)
    assert not copied.errors
    assert copied.state.regions == 2
    assert copied.state.cells > 0
    assert "is half of a file" in copied.state.by_scan[0]
    assert sides.source.scan_all(table) == sides.peer_cluster.scan_all(table)
    assert sides.source.compare(table, sides.peer_cluster, raw=True).same


def test_a_region_that_is_split_at_the_peer_cluster_between_two_loads_is_scanned(
    sides: Sides, copies: Copies, source_table, monkeypatch
):
    table = source_table({"f": GLOBAL}, versions=3)
    for mutation in MIXED:
        sides.source.write(table, [mutation])
        sides.source.flush(table)
    copied_files: list[str] = []

    def copy_and_split(source: str, target: str, task: str) -> FileEnd:
        copied_files.append(source)
        if len(copied_files) == 3:
            (region,) = sides.peer_cluster.regions(table)
            sides.peer_cluster.split_region(region.encoded_name, b"r5")
        return copy_file(source, target, task)

    monkeypatch.setattr(files_copy, "copy_file", copy_and_split)
    copied = copies.run(table)
    assert not copied.errors
    assert "other borders of regions" in copied.state.by_scan[0]
    assert sides.source.scan_all(table) == sides.peer_cluster.scan_all(table)
    assert sides.source.compare(table, sides.peer_cluster, raw=True).same
