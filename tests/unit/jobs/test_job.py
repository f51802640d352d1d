"""How a Spark job's script ends."""

from __future__ import annotations

import pytest

from walferry.base.errors import WalferryError
from walferry.jobs.job import exit_code_of, say, tell


def test_a_job_s_own_exit_code_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert [exit_code_of(lambda: 0, "nothing is shipped"), exit_code_of(lambda: 1, "nothing is shipped")] == [0, 1]
    assert capsys.readouterr().err == ""


def test_an_error_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> int:
        raise WalferryError("peer 2: it is ENABLED", "Disable it")

    assert exit_code_of(run, "nothing is shipped") == 1
    assert capsys.readouterr().err == "nothing is shipped: peer 2: it is ENABLED. Disable it\n"


def test_any_other_error_is_a_bug_and_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_code_of(lambda: 1 // 0, "nothing is shipped")


def test_no_text_of_a_cluster_ends_a_line_of_a_job(capsys):
    say("table t\nnothing is shipped: forged \x1b[2J")
    tell("table t\r\nERROR")
    assert exit_code_of(lambda: 7, "x") == 7
    out, err = capsys.readouterr()
    assert (out, err) == ("table t nothing is shipped: forged  [2J\n", "table t  ERROR\n")
