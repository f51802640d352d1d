"""Findings about a Spark Connect server, from what its worker has said."""

from __future__ import annotations

from pathlib import Path

import pytest

from walferry.admin.diagnosis.spark import connect_server_findings
from walferry.jobs.connect import probe
from walferry.jobs.connect.errors import ServerRefuses
from walferry.jobs.connect.probe import Probed, Worker
from walferry.jobs.connect.server import Address

ADDRESS = Address("127.0.0.1", token="hush-hush")


@pytest.mark.parametrize(
    ("worker", "severity", "said"),
    [
        (
            Worker("one", "3.11.7", 2, compiled_for="x86-64-v3"), "well",
            "a worker of 127.0.0.1:15002 on one has Python 3.11.7 and 2 processors, and kernels compiled for x86-64-v3; "
            "a job of one task took 0.2 s",
        ),
        (Worker("one", "3.11.7", 2), "note", "but no compiled kernels; a job of one task took 0.2 s. `walferry compile --here`"),
        (
            Worker("one\x1b[31m", "3.11.7", 2, "No module named 'kazoo' (/usr/bin/python3)"), "wrong",
            "on one [31m cannot import the library: No module named 'kazoo' (/usr/bin/python3). Start the server with",
        ),
    ],
)  # fmt: skip
def test_a_worker_is_found_well_slow_or_of_no_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, worker: Worker, severity: str, said: str
) -> None:
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(probe, "probe", lambda *_: Probed(worker, 0.2))
    (finding,) = connect_server_findings(lambda: ADDRESS)
    assert finding.severity == severity
    assert said in finding.sentence


def test_without_a_server_there_is_nothing_to_find() -> None:
    assert list(connect_server_findings(lambda: None)) == []


def test_an_error_is_found_with_its_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> Probed:
        raise ServerRefuses("Spark Connect server 127.0.0.1:15002: no", "Its token is the password of the connection")

    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(probe, "probe", refuse)
    (finding,) = connect_server_findings(lambda: ADDRESS)
    assert (finding.severity, finding.kind) == ("wrong", "Spark Connect")
    assert "Its token is the password of the connection" in finding.text
