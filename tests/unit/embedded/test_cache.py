from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from embedded.cache import cache_home, filled_once


def test_a_folder_is_filled_once(tmp_path):
    fills: list[Path] = []

    def fill(folder: Path) -> None:
        fills.append(folder)
        (folder / "file").write_text("content")

    assert filled_once(tmp_path / "a", fill) == tmp_path / "a"
    assert filled_once(tmp_path / "a", fill) == tmp_path / "a"

    assert (tmp_path / "a" / "file").read_text() == "content"
    assert len(fills) == 1


def test_a_fill_that_fails_leaves_no_folder(tmp_path):
    def fill(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RuntimeError("network gone")

    with pytest.raises(RuntimeError, match="network gone"):
        filled_once(tmp_path / "a", fill)

    assert [path.name for path in tmp_path.iterdir()] == ["a.lock"]


def test_who_comes_second_waits_for_the_first_and_says_so(tmp_path, capsys):
    begun, fills = threading.Event(), []

    def fill(folder: Path) -> None:
        begun.set()
        fills.append(folder)
        time.sleep(0.2)
        (folder / "file").write_text("content")

    first = threading.Thread(target=filled_once, args=(tmp_path / "a", fill))
    first.start()
    assert begun.wait(10)

    assert (filled_once(tmp_path / "a", fill) / "file").exists()
    assert len(fills) == 1
    assert capsys.readouterr().err == f"waiting for another process, which is filling {tmp_path / 'a'}\n"
    first.join(10)


def test_the_cache_lies_where_the_user_keeps_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_home() == tmp_path / "walferry"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_home() == tmp_path / "home" / ".cache" / "walferry"
