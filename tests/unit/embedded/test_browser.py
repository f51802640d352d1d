"""Chromium is found or installed, or a message says what is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embedded import browser
from embedded.browser import BrowserMissingError, find_browser, install, main


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def command(path: Path, script: str = "") -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def debian(monkeypatch: pytest.MonkeyPatch, name: str = "debian", user: int = 0) -> None:
    monkeypatch.setattr(browser.platform, "freedesktop_os_release", lambda: {"ID": name})
    monkeypatch.setattr(os, "geteuid", lambda: user)


@pytest.mark.parametrize("name", ["chromium", "google-chrome"])
def test_what_is_on_path_is_taken(on_path: Path, name: str) -> None:
    found = command(on_path / name)
    assert find_browser() == found
    install()


def test_it_is_said_what_to_install(on_path: Path) -> None:
    with pytest.raises(BrowserMissingError, match=r"install Chromium, on Debian by `apt-get install chromium`"):
        find_browser()


def test_root_on_debian_gets_it_after_a_look_at_what_there_is(on_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debian(monkeypatch)
    asked = on_path / "asked"
    made = f"printf '#!/bin/sh\\n' > {on_path}/chromium && /bin/chmod 755 {on_path}/chromium"
    command(on_path / "apt-get", f'echo "$DEBIAN_FRONTEND $*" >> {asked}; [ "$1" != install ] || {{ {made}; }}')
    install()
    assert find_browser() == on_path / "chromium"
    assert asked.read_text().splitlines() == [
        "noninteractive update", "noninteractive install -y --no-install-recommends chromium"
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "user"), [("ubuntu", 0), ("debian", 1000)])
def test_nobody_else_gets_it_but_is_told(
    on_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, user: int
) -> None:
    debian(monkeypatch, name, user)
    command(on_path / "apt-get", f"touch {on_path}/asked")
    assert main() == 0
    assert "install Chromium" in capsys.readouterr().err
    assert not (on_path / "asked").exists()


def test_what_apt_get_says_is_told(on_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debian(monkeypatch)
    command(on_path / "apt-get", "echo 'E: no network' >&2; exit 100")
    with pytest.raises(BrowserMissingError, match="`apt-get update` failed: E: no network"):
        install()


def test_only_root_goes_without_the_browser_s_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert browser.options() == []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert browser.options() == ["--no-sandbox"]
