"""The message taken from the log of a server's process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from embedded.processes import JavaProcess


@pytest.fixture
def process(tmp_path: Path) -> JavaProcess:
    with subprocess.Popen([sys.executable, "-c", ""]) as popen:
        return JavaProcess("source", popen, tmp_path / "source.log")


def test_a_server_that_gave_itself_up_says_why(process: JavaProcess) -> None:
    why = "12:00 ERROR HRegionServer - ***** ABORTING region server localhost,1,2: Failed log archiving *****"
    process.log.write_text(f"12:00 INFO HMaster - it serves\n{why}\nand more\n12:01 ***** ABORTING again *****\n")
    assert process.abort() == why


@pytest.mark.parametrize("log", [None, "12:00 INFO HMaster - Master has completed initialization\n"])
def test_one_that_did_not_says_nothing(process: JavaProcess, log: str | None) -> None:
    if log is not None:
        process.log.write_text(log)
    assert process.abort() is None
