"""Which regions and files a snapshot has, and where its files may lie."""

from __future__ import annotations

import pytest

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.tables.errors import BrokenSnapshot
from walferry.hbase.tables.snapshots import read_manifest, regions_of, split_keys

TABLE = pb.TableName(namespace=b"ns", qualifier=b"t")
HFILE = "0123456789abcdef0123456789abcdef"


def region(start: bytes = b"", end: bytes = b"", files: dict[bytes, list[str]] | None = None, region_id: int = 7, **info: object):
    found = pb.SnapshotRegionManifest(
        region_info=pb.RegionInfo(region_id=region_id, table_name=TABLE, start_key=start, end_key=end, **info)  # type: ignore[arg-type]
    )
    for family, names in (files or {}).items():
        found.family_files.add(family_name=family).store_files.extend(
            pb.SnapshotRegionManifest.StoreFile(name=name, file_size=10) for name in names
        )
    return found


def manifest(*regions: pb.SnapshotRegionManifest) -> pb.SnapshotDataManifest:
    return pb.SnapshotDataManifest(table_schema=pb.TableSchema(table_name=TABLE), region_manifests=regions)


def test_regions_come_in_the_order_of_their_rows_with_the_files_of_the_wanted_families():
    found = regions_of(manifest(region(b"m", b"", {b"f": [HFILE], b"l": ["1"]}), region(b"", b"m")), [b"f"])
    assert [(each.start, each.end, each.size) for each in found] == [(b"", b"m", 0), (b"m", b"", 10)]
    assert split_keys(found) == [b"m"]
    (file,) = found[1].files
    below = f"ns/t/{found[1].encoded_name}/f/{HFILE}"
    assert file.places == (f"data/{below}", f"archive/data/{below}")


def test_parents_of_splits_replicas_and_the_region_of_mob_files_are_left_out():
    regions = [
        region(b"a", offline=True, split=True), region(b"b", replica_id=1), region(b".mob", region_id=0), region(b".mob")
    ]  # fmt: skip
    assert [each.start for each in regions_of(manifest(*regions), [])] == [b".mob"]


def test_a_link_leads_to_the_files_of_the_table_that_was_cloned():
    other = "fedcba98"
    found = regions_of(manifest(region(files={b"f": [f"other={other}-{HFILE}", f"n2=other={other}-{HFILE}_SeqId_4_"]})), [b"f"])
    first, second = found[0].files
    assert first.places[0] == f"data/default/other/{other}/f/{HFILE}"
    assert second.places[1] == f"archive/data/n2/other/{other}/f/{HFILE}_SeqId_4_"


@pytest.mark.parametrize("name", ["..", "a/b", "", f"t=abc-../../{HFILE}"])
def test_a_name_that_leads_elsewhere_is_no_file(name):
    with pytest.raises(BrokenSnapshot, match="as a file"):
        regions_of(manifest(region(files={b"f": [name]})), [b"f"])


def test_a_table_whose_name_is_no_text_breaks_the_snapshot():
    broken = region(b"a", b"", {b"f": [HFILE]})
    broken.region_info.table_name.namespace = b"\xff"
    with pytest.raises(BrokenSnapshot, match="not text"):
        regions_of(manifest(broken), [b"f"])


def test_a_manifest_that_is_missing_or_broken_is_named(tmp_path):
    root = tmp_path.as_uri()
    with pytest.raises(BrokenSnapshot, match=r"there is no .*/\.hbase-snapshot/s/data\.manifest.*root_dir"):
        read_manifest(root, "s")
    folder = tmp_path / ".hbase-snapshot" / "s"
    folder.mkdir(parents=True)
    (folder / "data.manifest").write_bytes(b"\xff\xff")
    with pytest.raises(BrokenSnapshot, match="cannot be read"):
        read_manifest(root, "s")


def test_a_size_that_no_file_has_is_refused():
    broken = region(files={b"f": [HFILE]})
    broken.family_files[0].store_files[0].file_size = (1 << 64) - 1
    with pytest.raises(BrokenSnapshot, match="18,446,744,073,709,551,615 bytes"):
        regions_of(manifest(broken), [b"f"])


def test_a_manifest_that_is_far_too_large_is_not_read(tmp_path):
    folder = tmp_path / ".hbase-snapshot" / "s"
    folder.mkdir(parents=True)
    with (folder / "data.manifest").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BrokenSnapshot, match=r"1,099,511,627,776 bytes.*ExportSnapshot"):
        read_manifest(tmp_path.as_uri(), "s")


@pytest.mark.parametrize("table", ["हिंदी", "表.x-1"])  # letters of Java's, of which some are none of Python's regular expressions
def test_a_link_to_a_table_of_any_language_is_a_link(table):
    found = regions_of(manifest(region(files={b"f": [f"{table}=fedcba98-{HFILE}"]})), [b"f"])
    assert found[0].files[0].places[0] == f"data/default/{table}/fedcba98/f/{HFILE}"


@pytest.mark.parametrize("family", [b"L#0", b"q?x", b"a b", b"p%41", "ü".encode(), b"\xff[x;", b"~*"])
def test_a_family_s_folder_is_its_name(family):
    found = regions_of(manifest(region(files={family: [HFILE]})), [family])
    assert found[0].files[0].places[0].split("/")[4] == family.decode(errors="replace")
