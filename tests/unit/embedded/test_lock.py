"""A lock out of pip's reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from embedded import lock

ROOT = Path(__file__).resolve().parents[3]
LOCKS = [ROOT / "requirements.lock", *sorted((ROOT / "requirements").glob("*.lock"))]


def installed(name: str, version: str, digest: str) -> dict[str, Any]:
    archive = {"hashes": {"sha256": digest}}
    return {"metadata": {"name": name, "version": version}, "download_info": {"url": "https://x/y.whl", "archive_info": archive}}


def test_each_package_is_one_line_with_the_hashes_of_all_platforms() -> None:
    here = {"install": [installed("numpy", "2", "bb"), installed("Babel", "1", "cc")]}
    there = {"install": [installed("numpy", "2", "aa")]}
    assert lock.lines([here, there]) == ["Babel==1 --hash=sha256:cc", "numpy==2 --hash=sha256:aa --hash=sha256:bb"]


def test_a_later_file_s_pin_takes_the_place_of_an_earlier_one() -> None:
    first, second = "# A comment.\nbabel==1\nOne_two[x]==1\n", "one-two==2\n"
    assert lock.merged([first, second]) == ["babel==1", "one-two==2"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_all_that_is_locked_has_hashes_and_all_that_is_required_is_locked(path: Path) -> None:
    locked = path.read_text().splitlines()
    pins = {line.split()[0].lower().replace("_", "-") for line in locked}
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})+", line) for line in locked)
    required = [each for each in (ROOT / "requirements.txt", path.with_suffix(".txt")) if each.exists()]
    assert {line.lower().replace("_", "-") for line in lock.merged(each.read_text() for each in required)} <= pins
    assert any(pin.startswith("setuptools==") for pin in pins), "pip takes nothing that is not locked, if anything has a hash"
