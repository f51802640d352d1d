"""A password stands in a file of its own, and the end of its line is no part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from walferry.base.zk.login import password_of


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_password_is_a_file_s_text_without_the_end_of_its_line(tmp_path: Path, end: str) -> None:
    (tmp_path / "p").write_bytes(f" pass word {end}".encode())
    assert password_of(str(tmp_path / "p")) == b" pass word "
