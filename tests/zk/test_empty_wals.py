"""Finished WALs are taken out of their queues, with few requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.zk.counted_site import LARGE, Site, make_site
from walferry.shipping.empty_wals import dequeue_empty
from walferry.shipping.plan import plan_peer

__all__ = ["make_site"]  # a fixture


def test_a_sweep_asks_for_each_group_s_queue_once(make_site: Callable[[tuple[int, int]], Site]) -> None:
    site = make_site(LARGE)
    plan = plan_peer(site.session, "p")
    idle = replace(plan, groups=tuple(replace(g, wals=tuple(replace(w, finished=True) for w in g.wals)) for g in plan.groups))
    with site.counted() as requests:
        dequeued = dequeue_empty(site.session, idle, "plan")
    assert dequeued.wals == sum(len(group.wals) for group in plan.groups)
    assert requests["reads"] <= 20 * site.servers


def test_wals_that_another_run_has_taken_out_since_the_plan_are_not_looked_for(
    make_site: Callable[[tuple[int, int]], Site],
) -> None:
    site = make_site(LARGE)
    plan = plan_peer(site.session, "p")
    idle = replace(plan, groups=tuple(replace(g, wals=tuple(replace(w, finished=True) for w in g.wals)) for g in plan.groups))
    assert dequeue_empty(site.session, idle, "another run").wals
    with site.counted() as requests:
        assert dequeue_empty(site.session, idle, "plan").wals == 0
    assert requests["reads"] <= 20 * site.servers
