"""What the tasks of an idle batch call, without what Airflow gives and takes (bench.idle). Only processes of tasks import it."""

from __future__ import annotations

import time

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.reports.batch import BatchReport, Steps
from walferry.runs.values import ChosenPeers


def _source() -> SourceCluster:
    return HBaseSourceHook("hbase_source").get_conn()


def peers(peer: str, run: str) -> None:
    """Choose the peers."""
    from walferry.runs.steps import batch

    batch.choose(_source(), None).to_xcom()


def roll(peer: str, run: str) -> None:
    """Roll the RegionServers that need it."""
    from walferry.runs.steps import batch

    batch.roll(_source(), [peer])


def plan(peer: str, run: str) -> None:
    """Find that there is nothing to ship."""
    from walferry.runs.steps import batch

    planned = batch.plan(_source(), peer, run, run, ChosenPeers([peer], [], time.time()))
    if planned.groups:
        raise RuntimeError(f"there is something to ship: {planned}")


def report(peer: str, run: str) -> None:
    """Report that nothing was shipped."""
    from walferry.runs.steps import batch

    shipped = batch.summaries(_source(), peer, run)
    BatchReport(peer, None, Steps("success", "skipped", "success"), shipped, int(time.time() * 1000)).as_text()
