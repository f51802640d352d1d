"""The answers to newcomers' mistakes: each row of the table of docs/mistakes.md is provoked, here or on clusters."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import RetryDecision

from embedded.zookeeper import ZooKeeperServer
from tests.zk.fixtures import hbase, new_client
from tests.zk.hbase_znodes import HBaseZNodes
from tests.zk.test_agreement import be_of
from walferry.airflow.endings import RetryIfItHelps

from .conftest import Run
from .mistakes import PROVOCATIONS, Row, Site, rows

__all__ = ["hbase", "new_client"]  # fixtures

LONG_SECONDS = 30.0  # for a first try that fails within 10 s, a run's other tasks, and a busy machine
HERE = [row for row in rows() if row.mistake in PROVOCATIONS]


@pytest.fixture
def site(
    hbase: HBaseZNodes, zookeeper: ZooKeeperServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    run_dag: Callable[..., Run], last_words: Callable[[], str], capsys: pytest.CaptureFixture[str],
) -> Iterator[Site]:  # fmt: skip
    ask = RetryIfItHelps.evaluate

    def once(*args: Any, **asked: Any) -> RetryDecision:
        ask(*args, **asked)
        return RetryDecision.fail()  # the first try shows everything

    monkeypatch.setattr(RetryIfItHelps, "evaluate", once)
    be_of(hbase, "1.7.2")  # a release whose Master, which is absent here, is not asked for peers
    (tmp_path / "oldWALs").mkdir()
    monkeypatch.setenv("WALFERRY_CACHE", os.environ.get("WALFERRY_CACHE", str(tmp_path / "cache")))
    return Site(hbase, zookeeper.quorum, tmp_path, monkeypatch, run_dag, last_words, capsys)


@pytest.mark.parametrize("row", HERE, ids=lambda row: row.mistake)
def test_a_mistake_is_answered_with_what_the_table_says_and_soon(row: Row, site: Site) -> None:
    began = time.monotonic()
    reported = PROVOCATIONS[row.mistake](site)
    assert row.fits(reported), f"it says:\n{reported}\nand the table:\n{row.reported}"
    assert time.monotonic() - began < LONG_SECONDS


def test_the_table_has_each_mistake_that_is_provoked_and_no_others() -> None:
    from .test_mistakes_on_clusters import PROVOCATIONS as CLUSTERS

    assert sorted(row.mistake for row in rows()) == sorted({*PROVOCATIONS, *CLUSTERS})
