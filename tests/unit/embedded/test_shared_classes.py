from __future__ import annotations

import os

from embedded import shared_classes
from embedded.jars import HBASE_2


def test_a_jvm_maps_the_archive_if_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_classes, "_folder", lambda jars: tmp_path / jars.name)
    assert shared_classes.shared_classes(HBASE_2) == []
    (tmp_path / HBASE_2.name).mkdir()
    archive = tmp_path / HBASE_2.name / "classes.jsa"
    archive.touch()
    assert shared_classes.shared_classes(HBASE_2) == [f"-XX:SharedArchiveFile={archive}"]


def test_lists_of_several_jvms_become_one_and_half_a_line_is_left_out(tmp_path):
    (tmp_path / "1.classes").write_text("java/lang/Object id: 0\norg/example/One\n")
    (tmp_path / "2.classes").write_text("java/lang/Object id: 0\norg/example/Two\norg/exa")
    merged = shared_classes._merged(sorted(tmp_path.glob("*.classes")))
    assert merged == ["java/lang/Object id: 0", "org/example/One", "org/example/Two"]


def test_only_while_classes_are_listed_each_jvm_is_told_to(tmp_path, monkeypatch):
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xint")
    with shared_classes._listing_classes(tmp_path):
        assert os.environ["JDK_JAVA_OPTIONS"] == f"-XX:DumpLoadedClassList={tmp_path}/%p.classes"
    assert os.environ["JDK_JAVA_OPTIONS"] == "-Xint"
    monkeypatch.delenv("JDK_JAVA_OPTIONS")
    with shared_classes._listing_classes(tmp_path):
        pass
    assert "JDK_JAVA_OPTIONS" not in os.environ
