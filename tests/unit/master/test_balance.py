"""When regions are moved for balance, and to which servers."""

from __future__ import annotations

from tests.unit.master.looks import A, B, Site, draining, refused
from walferry.master import requests
from walferry.master.placement import plan_moves
from walferry.master.states import RegionState


def test_the_balancer_moves_no_region_to_a_server_that_drains() -> None:
    site = Site()
    for n in range(6):
        site.add(n, served_by=(B,))
    assert len(plan_moves(site.look().view)) == 3
    assert plan_moves(draining(site)) == []


def test_the_cluster_is_balanced_only_while_nothing_is_in_transition() -> None:
    site = Site()
    for n in range(4):
        site.add(n, served_by=(A,))
    request = requests.balance(site.look())
    assert len(request.only) == len(request.lines) == 2
    site.add(9, RegionState.OPENING)
    refused(requests.balance, site, "1 regions are in transition")
