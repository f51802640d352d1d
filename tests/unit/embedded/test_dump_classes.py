from __future__ import annotations

import os

from embedded import dump_classes


def test_lists_of_several_jvms_become_one_and_half_a_line_is_left_out(tmp_path):
    (tmp_path / "1.classes").write_text("java/lang/Object id: 0\norg/example/One\n")
    (tmp_path / "2.classes").write_text("java/lang/Object id: 0\norg/example/Two\norg/exa")
    merged = dump_classes._merged(sorted(tmp_path.glob("*.classes")))
    assert merged == ["java/lang/Object id: 0", "org/example/One", "org/example/Two"]


def test_only_while_classes_are_listed_each_jvm_is_told_to(tmp_path, monkeypatch):
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xint")
    with dump_classes._listing_classes(tmp_path):
        assert os.environ["JDK_JAVA_OPTIONS"] == f"-XX:DumpLoadedClassList={tmp_path}/%p.classes"
    assert os.environ["JDK_JAVA_OPTIONS"] == "-Xint"
    monkeypatch.delenv("JDK_JAVA_OPTIONS")
    with dump_classes._listing_classes(tmp_path):
        pass
    assert "JDK_JAVA_OPTIONS" not in os.environ
