"""`python -m embedded.lock REQUIREMENTS … LOCK` pins all packages for REQUIREMENTS, with hashes, for this version of Python.

If several files of requirements name a package, the last one counts. pip itself looks the packages up and reports which files it
would install (`pip install --dry-run --report`). It installs nothing. Each line is one package, with the hashes of its files for
Linux on x86-64 and on ARM.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ARCHITECTURES = ("x86_64", "aarch64")
GLIBCS = ("2_34", "2_28", "2_17")  # of manylinux: pip takes the newest one that a package has
_ANYWHERE = "-none-any.whl"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 2:
        print("usage: python -m embedded.lock REQUIREMENTS … LOCK", file=sys.stderr)
        return 2
    *requirements, lock = map(Path, arguments)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)  # a system's Python may have no pip
        pip = Path(folder) / "bin" / "pip"
        here = _report(pip, merged(each.read_text(encoding="utf-8") for each in requirements))
        own = [pin for pin, url in _files(here) if url.endswith(".whl") and not url.endswith(_ANYWHERE)]
        (other,) = set(ARCHITECTURES) - {platform.machine()}
        there = _report(pip, [*_of(other), *own]) if own else {"install": []}
    lock.write_text("\n".join(lines([here, there])) + "\n", encoding="utf-8")
    return 0


def merged(requirements: Iterable[str]) -> list[str]:
    """Return the requirements of files' texts. Of several for one package the last one counts."""
    each = [line.strip() for text in requirements for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return list({re.split(r"[\[=<>!~; ]", line, maxsplit=1)[0].lower().replace("_", "-"): line for line in each}.values())


def lines(reports: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a lock's lines from pip's reports, by name: each package once, with the hashes of all its files in the reports."""
    hashes: dict[str, set[str]] = {}
    for report in reports:
        for each in report["install"]:
            known = each["download_info"]["archive_info"]["hashes"]
            hashes.setdefault(_pin(each), set()).add(known["sha256"])
    pins = sorted(hashes, key=lambda pin: pin.lower().replace("_", "-"))
    return [" ".join([pin, *(f"--hash=sha256:{digest}" for digest in sorted(hashes[pin]))]) for pin in pins]


def _report(pip: Path, what: Sequence[str]) -> dict[str, Any]:
    """Ask pip which files it would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [str(pip), "install", "--dry-run", "--ignore-installed", "--report", str(report), *what]
        subprocess.run(command, check=True)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return found


def _of(architecture: str) -> list[str]:
    """Return pip's options for ready-made files of another platform."""
    platforms = [f"--platform=manylinux_{glibc}_{architecture}" for glibc in GLIBCS]
    return ["--no-deps", "--only-binary=:all:", "--target=unused", *platforms]


def _files(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(_pin(each), each["download_info"]["url"]) for each in report["install"]]


def _pin(each: Mapping[str, Any]) -> str:
    return f"{each['metadata']['name']}=={each['metadata']['version']}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
