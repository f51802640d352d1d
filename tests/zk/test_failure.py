"""A server fails: its WALs are split, and then its regions are opened elsewhere."""

from __future__ import annotations

from tests.zk.flows import REGIONS, Flows, flows
from tests.zk.region_world import states

__all__ = ["flows"]  # a fixture


def test_a_dead_server_s_regions_are_opened_elsewhere_after_its_wals_are_split(flows: Flows) -> None:
    flows.until_quiet()
    dead = flows.kill()
    flows.master.one_pass()
    assert states(flows.world) == {}  # all regions wait for the WALs
    flows.until_quiet()
    served = flows.served()
    assert len(served) == REGIONS
    assert dead not in served.values()
    assert (flows.root / "oldWALs" / f"{dead.encoded()}.1").exists()
