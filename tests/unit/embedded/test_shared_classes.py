from __future__ import annotations

from embedded import shared_classes
from embedded.jars import HBASE_2


def test_a_jvm_maps_the_archive_if_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_classes, "archive_folder", lambda jars: tmp_path / jars.name)
    assert shared_classes.shared_classes(HBASE_2) == []
    (tmp_path / HBASE_2.name).mkdir()
    archive = tmp_path / HBASE_2.name / "classes.jsa"
    archive.touch()
    assert shared_classes.shared_classes(HBASE_2) == [f"-XX:SharedArchiveFile={archive}"]
