"""Ports for servers, and the message taken from the log of a server's process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded import processes
from embedded.processes import ClusterError, JavaProcess, free_port


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


@pytest.fixture
def three_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The only ports that this process and new ones may give away."""
    ports = [free_port() for _ in range(3)]
    monkeypatch.setattr(processes, "_PORTS", ports)
    monkeypatch.setattr(processes, "_ports_given", set())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    processes._ports_file.cache_clear()
    yield ports
    processes._ports_file().close()
    processes._ports_file.cache_clear()


def test_a_port_is_given_to_one_process_only_as_long_as_it_lives(three_ports: list[int]) -> None:
    """It was bound later by two servers of two processes, for which hypothesis had seeded `random` alike."""
    first = free_port()
    other = (
        "import sys\nfrom embedded import processes\n"
        f"processes._PORTS = {three_ports}\nprint(processes.free_port(), flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        theirs = int(popen.stdout.readline())
        ours = free_port()
        assert {first, theirs, ours} == set(three_ports)
        with pytest.raises(ClusterError, match="no free TCP port found"):
            free_port()
    assert free_port() == theirs  # that process has ended
