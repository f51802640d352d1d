"""How a demo ends: by a problem, told in one sentence, or by Ctrl-C."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import demo.__main__ as demo
from embedded.processes import ClusterError


@pytest.fixture(autouse=True)
def _own_signals_and_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(demo, "LOGS", tmp_path / "logs")


def test_a_problem_is_one_sentence_and_the_logs_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path, *, once: bool) -> int:
        (folder / "source").mkdir()
        (folder / "source" / "master.log").write_text("why\n")
        raise ClusterError("not within 300 s: cluster source serves", "sixty lines\n" * 60)

    monkeypatch.setattr(demo, "demonstrate", fail)
    assert demo.main() == 1
    said = capfd.readouterr().err
    assert said.startswith("\ndemo: not within 300 s: cluster source serves. Try again when the machine has less to do")
    assert said.count("\n") == 2
    assert (tmp_path / "logs" / "source" / "master.log").read_text() == "why\n"


@pytest.mark.parametrize(("once", "status"), [("0", 0), ("1", 1)])
def test_ctrl_c_is_no_failure_unless_somebody_waits_for_the_outcome(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], once: str, status: int
) -> None:
    def interrupted(folder: Path, *, once: bool) -> int:
        raise KeyboardInterrupt

    monkeypatch.setenv("DEMO_ONCE", once)
    monkeypatch.setattr(demo, "demonstrate", interrupted)
    assert (demo.main(), capfd.readouterr().out) == (status, "\nEnded.\n")
