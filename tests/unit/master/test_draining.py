"""Servers that operators drain (<base>/draining) get no regions, as with an HMaster."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.unit.master.looks import A, B, Site, draining, name_of
from walferry.master import requests
from walferry.master.decide import Step, decide
from walferry.master.errors import Refused
from walferry.master.plans import Plan
from walferry.master.role_loop import choose_for, no_locality


def test_no_region_is_placed_on_a_server_that_drains() -> None:
    site = Site()
    for n in range(4):
        site.add(n)
    view = draining(site)
    decided = [(region, decide(region, view.servers, 600.0)) for region in view.regions.values()]
    choose = choose_for(view, decided, no_locality)
    assert Counter(choose(name_of(n), view.servers.takers) for n in range(4)) == {B: 4}


def test_a_plan_s_destination_that_drains_meanwhile_is_chosen_anew() -> None:
    site = Site()
    encoded = site.add(1, plan=Plan(A, True, "balance"))
    view = draining(site)
    decision = decide(view.regions[encoded], view.servers, 600.0)
    assert (decision.step, decision.server) == (Step.CREATE, None)


def test_if_all_servers_drain_regions_stay_served() -> None:
    view = draining(Site())
    assert view.servers.takers == {B}
    assert replace(view.servers, draining=frozenset({A, B})).takers == {A, B}


def test_an_operator_s_move_to_a_server_that_drains_is_refused() -> None:
    site = Site()
    encoded = site.add(1, served_by=(B,))
    snapshot = replace(site.look(), view=draining(site))
    with pytest.raises(Refused, match="drained"):
        requests.move(snapshot, encoded, str(A))
