"""`python -m embedded.venv FOLDER REQUIREMENTS` replaces a virtual environment of this Python and shows the progress.

It runs before anything is installed, so it imports only Python's own library.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAUSES_SECONDS = (2.0, 5.0, 15.0, 30.0)  # before each further try
PROGRESS_SECONDS = 5.0
FINAL = ("No matching distribution", "ResolutionImpossible", "requires a different Python", "No space left")


@dataclass
class Pip:
    """One run of pip, with its output so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip() for line in self.process.stdout)

    def progress(self, installed: int, wanted: int) -> str:
        """Return the number of packages that have arrived, and pip's present action. pyspark alone may take a minute."""
        if any(line.startswith("Installing collected packages") for line in self.lines):
            return f"{installed} of {wanted} installed"
        # pip collects some packages twice.
        begun = sum(line.startswith("Collecting ") for line in self.lines)
        now = self.lines[-1].strip()[:100] if self.lines else "pip starts"
        return f"{min(begun, wanted)} of {wanted} looked up, now: {now}"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m embedded.venv FOLDER REQUIREMENTS", file=sys.stderr)
        return 2
    folder, requirements = Path(arguments[0]), Path(arguments[1])
    wanted = [line for line in requirements.read_text(encoding="utf-8").splitlines() if line.strip() and not line.startswith("#")]
    _say(
        f"virtual environment {folder} with Python {platform.python_version()}: {len(wanted)} packages of {requirements}, "
        "fetched if pip has not cached them (some minutes, once)"
    )
    try:
        if made := subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=False).returncode:
            return made
        return install(folder, requirements, len(wanted))
    except KeyboardInterrupt:
        _say("interrupted; the next try begins anew with what pip has cached")
        return 130


def install(folder: Path, requirements: Path, wanted: int, pauses: Sequence[float] = PAUSES_SECONDS) -> int:
    """Run pip, with further tries if it loses its connection, and return its exit code. Its cache keeps arrived packages."""
    for pause in (*pauses, None):
        code, lines = _run_pip(folder, requirements, wanted)
        final = pause is None or any(sign in line for line in lines for sign in FINAL)
        if code == 0 or final:
            break
        _say(f"{_reason(lines)}\npip has failed (code {code}), perhaps as it lost its connection; trying again in {pause:g} s")
        time.sleep(pause or 0)
    if code != 0:
        _say("\n".join(lines[-20:]) + f"\nthe Python packages could not be installed: pip's exit code is {code}, see above")
    return code


def _run_pip(folder: Path, requirements: Path, wanted: int) -> tuple[int, list[str]]:
    command = [str(folder / "bin" / "pip"), "install", "--disable-pip-version-check", "--progress-bar", "off", "--no-input"]
    command += ["--requirement", str(requirements)]
    before = _installed(folder)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        pip = Pip(process)
        reader = threading.Thread(target=pip.read, daemon=True)
        reader.start()
        try:
            while reader.is_alive():
                reader.join(PROGRESS_SECONDS)
                _say(f"Python packages: {pip.progress(_installed(folder) - before, wanted)}")
        except BaseException:
            process.terminate()
            raise
    return process.returncode, pip.lines


def _installed(folder: Path) -> int:
    return sum(1 for _ in folder.glob("lib/python3*/site-packages/*.dist-info"))


def _reason(lines: list[str]) -> str:
    errors = [line for line in lines if "rror" in line]
    return "\n".join(errors[-3:] or lines[-3:])


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
