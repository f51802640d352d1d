"""Finds Chromium for tests that click, and for pictures of the page.

`python -m embedded.browser` installs a missing Chromium if it runs as root on Debian, as in CI. Elsewhere it says what to
install, and everything that needs a browser fails with the same words. It needs no package.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = "chromium"
NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
INSTALL_SECONDS = 600


class BrowserMissingError(RuntimeError):
    """There is no Chromium or Chrome on PATH."""


def find_browser() -> Path:
    """Return Chromium or Chrome on PATH. Raises BrowserMissingError."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise BrowserMissingError(
        f"no browser is on PATH ({', '.join(NAMES)}): install Chromium, on Debian by `apt-get install {PACKAGE}`"
    )


def options() -> list[str]:
    """Return the browser's options. Its sandbox does not work for root, which is the user in containers."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


def install() -> None:
    """Install Chromium by apt-get if there is none and this is root on a Debian. Raises BrowserMissingError."""
    try:
        find_browser()
    except BrowserMissingError:
        if not (_is_debian() and os.geteuid() == 0 and shutil.which("apt-get")):
            raise
        _apt_get()
        find_browser()


def _apt_get() -> None:
    """Fetch the list of packages, then install: a fresh container has no list, and an old list names packages that are gone."""
    install_it = ["apt-get", "install", "-y", "--no-install-recommends", PACKAGE]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print(f"installing {PACKAGE} (once)", file=sys.stderr, flush=True)
    for command in (["apt-get", "update"], install_it):
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise BrowserMissingError(f"`{' '.join(command)}` has not ended within {INSTALL_SECONDS} s") from error
        if done.returncode:
            raise BrowserMissingError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()[-1000:]}")


def _is_debian() -> bool:
    """Return whether this is Debian itself: Ubuntu's package only installs a snap, which does not run in a container."""
    try:
        return platform.freedesktop_os_release().get("ID") == "debian"
    except OSError:
        return False


def main() -> int:
    """Install the browser or say why not. The exit code is 0 in either case: only some of the tests need a browser."""
    try:
        install()
    except BrowserMissingError as error:
        print(f"{error}. Tests that need a browser will fail", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
