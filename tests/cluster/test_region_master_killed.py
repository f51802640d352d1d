"""The role dies (kill -9) before or after any of its actions, in each flow, and another process goes on.

The process that dies is tests.cluster.acting_master. Afterwards each region is open exactly once, no row is lost, and a real
HMaster finds nothing amiss.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from embedded.client import JavaClient
from embedded.hbase import ClusterAddress
from tests.cluster.region_site import TABLE, WAIT_SECONDS, Site, in_charge, region_site, wait_for
from tests.processes import ROOT
from walferry.master import tables
from walferry.master.calls import CalledServers
from walferry.master.plans import Plan
from walferry.master.reconcile import begin_to_close
from walferry.master.tables import TableState, read_state

SAMPLED = {"start": 14, "balance": 8, "disable": 3, "enable": 5, "failure": 12}  # actions in the middle of each flow


@dataclass(frozen=True)
class Flow:
    """A flow of regions: how a test prepares it, and what else happens while it runs."""

    name: str
    prepare: Callable[[Site], None]
    beside: Callable[[Site], object] = lambda _: None
    start_with: int = 0


def all_dead(site: Site) -> None:
    site.write()
    site.kill_all()


def launch_servers(site: Site) -> None:
    """Start servers without waiting for them: their master may be dead before they have reported to it."""
    for _ in range(2):
        site.cluster.launch_regionserver()


def on_one_server(site: Site) -> None:
    """Move all regions of the table to one server."""
    target = min(site.live)
    with in_charge(site) as charge:
        view, _ = site.look()
        elsewhere = [encoded for encoded in site.table_regions() if target not in view.regions[encoded].served_by]
        plans = dict.fromkeys(elsewhere, Plan(target, True, "a test moves it"))
        begin_to_close(view, plans, charge.role.writes, CalledServers())
        site.await_whole(charge.story)
    site.write()


def one_dead(site: Site) -> None:
    """Kill a server: in turn the one with most of the regions, and hbase:meta's."""
    with in_charge(site):
        site.start_servers(1)
    site.write()
    meta = site.meta_at()
    of_meta = site.rows % 200 == 0  # each write adds a hundred rows
    others = site.live - {meta}
    site.kill(meta if of_meta else max(others, key=lambda server: site.load()[server]))


def enabled(site: Site) -> None:
    site.write()


def disabled(site: Site) -> None:
    with in_charge(site) as charge:
        tables.disable(site.zk, site.nodes, charge.role.lock, TABLE)
        wait_for(lambda: not site.amiss(closed=True), "the table is disabled")


FLOWS = {
    flow.name: flow
    for flow in (
        Flow("start", all_dead, launch_servers, start_with=2),
        Flow("balance", on_one_server),
        Flow("disable", enabled),
        Flow("enable", disabled),
        Flow("failure", one_dead),
    )
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    with region_site(Path(tmp_path_factory.mktemp("killed")), java_client, splits=[b"3", b"6", b"9", b"c"]) as found:
        yield found
        found.hand_over()


@contextlib.contextmanager
def acting(site: Site, flow: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run another process as the master."""
    address = site.cluster.address
    where = ["--quorum", address.quorum, "--root", address.wal_root]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.acting_master", *where, "--flow", flow, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def killed(site: Site, flow: Flow, die: str, at: int) -> bool:
    """Make one round. Returns False if the flow ended before the process died."""
    flow.prepare(site)
    with acting(site, flow.name, "--die", die, "--at", str(at)) as process:
        flow.beside(site)
        reported, _ = process.communicate(timeout=WAIT_SECONDS)
    print(reported)
    assert process.returncode in (0, -signal.SIGKILL), reported
    died = process.returncode != 0
    with in_charge(site, start_with=flow.start_with if died else 0) as charge:
        if read_state(site.zk, site.nodes, TABLE).state in (TableState.DISABLING, TableState.DISABLED):
            wait_for(lambda: not site.amiss(closed=True), f"the table is disabled\n{charge.story()}")
            tables.enable(site.zk, site.nodes, charge.role.lock, TABLE)
        site.await_whole(charge.story)
    return died


@pytest.mark.parametrize(("flow", "at"), SAMPLED.items())
def test_another_process_goes_on_after_the_role_was_killed(site: Site, flow: str, at: int) -> None:
    assert killed(site, FLOWS[flow], "after", at)


@pytest.mark.soak
@pytest.mark.parametrize("die", ["before", "after"])
@pytest.mark.parametrize("flow", FLOWS)
def test_the_role_may_die_before_and_after_each_action(site: Site, flow: str, die: str) -> None:
    rounds = next(at for at in count(1) if not killed(site, FLOWS[flow], die, at))
    assert rounds > 5
    site.hand_over()
