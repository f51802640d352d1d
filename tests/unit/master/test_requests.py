"""Operators' requests: which are refused, and the warnings beforehand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.master.looks import DEAD, LATE, A, B, Site, code, refused
from walferry.base.zk.errors import ZNodeValueError
from walferry.master import requests
from walferry.master.decide import MAX_FAILURES
from walferry.master.plans import Plan
from walferry.master.requests import IDLE, OperatorRequest
from walferry.master.states import RegionState
from walferry.master.tables import StoredState, TableState

REGION = code(1)


def test_a_region_that_no_server_serves_is_assigned_where_the_operator_says() -> None:
    site = Site()
    site.add(1, last=DEAD)
    request = requests.assign(site.look(), REGION, str(B))
    assert request.lines == [f"region {REGION}: no server serves it; it is opened at {B}"]
    assert request.only == {REGION}
    (left,) = request.left(site.look())
    assert left.startswith(f"region {REGION} is not served: no server serves it")
    site.add(1, served_by=(B,))
    assert request.left(site.look()) == []


@pytest.mark.parametrize(
    ("facts", "server", "words"),
    [
        ({"served_by": (A,)}, None, f"is served by {A}.*regions move"),
        ({"wanted": False}, None, "is of table t, which is disabled"),
        ({"state": RegionState.OPENING}, str(B), "is in transition already"),
        ({}, str(DEAD), "is not a live RegionServer. Live are: rs0"),
        ({}, "\x1b[2J", "is not a server name"),
        ({}, "rs1", f"'rs1' is not a server name.* Live are: {B}, {A}$"),
    ],
)
def test_what_cannot_be_assigned_is_refused(facts: dict[str, object], server: str | None, words: str) -> None:
    site = Site()
    site.add(1, **facts)  # type: ignore[arg-type]
    refused(lambda snapshot: requests.assign(snapshot, REGION, server), site, words)


def test_no_region_is_assigned_by_hand_before_the_wals_of_its_last_server_are_split() -> None:
    site = Site(recovering={DEAD})
    site.add(1, last=DEAD)
    refused(lambda snapshot: requests.assign(snapshot, REGION, str(B)), site, "the WALs of its last server are not split yet")
    assert requests.assign(site.look(), REGION).only == {REGION}  # the passes have them split first


def test_a_region_that_too_many_servers_could_not_open_is_assigned_once_more_on_request() -> None:
    site = Site()
    site.add(2, served_by=(B,))
    site.add(1, RegionState.FAILED_OPEN, B, plan=Plan(B, True, "startup", MAX_FAILURES))
    assert requests.unstick(site.look()).only == frozenset()
    assert requests.assign(site.look(), REGION).lines == [f"region {REGION}: its failed opens are forgotten; it is opened at {A}"]
    assert requests.assign(site.look(), REGION, str(B)).lines[0].endswith(str(B))
    site.silent = {A}
    refused(lambda snapshot: requests.assign(snapshot, REGION), site, "11 servers could not open it")


def test_a_region_that_its_server_opens_is_waited_for() -> None:
    site = Site()
    site.add(1, RegionState.OPENING, A)
    assert requests.assign(site.look(), REGION).lines == [f"region {REGION}: the server opens it ({A}); this is waited for"]


def test_hbase_s_own_tables_stay_enabled() -> None:
    refused(lambda snapshot: requests.disable(snapshot, "hbase:meta"), Site(), "hbase:meta is HBase's own.*Leave it enabled")


def test_the_tables_with_names_like_a_misspelt_one_are_told() -> None:
    site = Site()
    site.add(1, served_by=(A,))
    refused(lambda snapshot: requests.disable(snapshot, "tt"), site, "no region of table tt.*Like it are: t$")


def test_unstick_names_region_state_and_server() -> None:
    site = Site()
    site.add(1, RegionState.OPENING, A, idle=LATE)
    assert requests.unstick(site.look()).lines == [
        f"region {REGION} is OPENING at {A}: the server has not opened it for {LATE:.0f} s; force the znode to OFFLINE and ask a "
        "server to open it"
    ]


def test_what_unstick_leaves_to_an_operator_is_told_apart() -> None:
    site = Site()
    site.add(1, served_by=(A, B))
    site.add(2)
    request = requests.unstick(site.look())
    assert (request.only, len(request.lines)) == ({code(2)}, 2)
    assert request.for_operator == [request.lines[0]]
    assert request.lines[0].startswith(f"region {REGION} is served twice: ")


def test_unstick_of_all_regions_tells_of_broken_znodes() -> None:
    error = ZNodeValueError(f"/hbase/region-in-transition/{REGION}", "its state 99 is unknown", "Look")
    request = requests.unstick(Site(broken=[error]).look())
    assert (request.lines, request.for_operator, request.idle) == ([str(error)], [str(error)], IDLE)


def test_a_region_moves_between_live_servers_only() -> None:
    site = Site()
    site.add(1, served_by=(A,))
    assert requests.move(site.look(), REGION, str(B)).lines == [f"region {REGION} is closed at {A} and opened at {B}"]
    refused(lambda snapshot: requests.move(snapshot, REGION, str(A)), site, "is at rs0.* already")
    refused(lambda snapshot: requests.move(snapshot, REGION, str(DEAD)), site, "is not a live RegionServer")
    site.silent = {B}
    refused(lambda snapshot: requests.move(snapshot, REGION, str(B)), site, "has not said which regions it serves")


def test_all_that_is_in_transition_or_not_served_is_unstuck_but_what_is_for_people() -> None:
    site = Site()
    site.add(1, RegionState.CLOSED)
    site.add(2, last=DEAD)
    site.add(3, served_by=(A, B))
    site.add(4, served_by=(A,))
    request = requests.unstick(site.look())
    assert request.only == {code(1), code(2)}
    assert [line.partition(" is ")[0] for line in request.lines] == [f"region {code(n)}" for n in (1, 2, 3)]
    assert requests.unstick(site.look(), [code(2)]).only == {code(2)}
    refused(lambda snapshot: requests.unstick(snapshot, ["nothing"]), site, "neither in hbase:meta nor in transition")


def test_a_stray_copy_is_closed_where_the_operator_says() -> None:
    site = Site()
    site.add(1, served_by=(A, B), last=A)
    request = requests.close_copy(site.look(), REGION, str(B))
    assert request.lines[0].startswith(f"the copy of region {REGION} at {B} is closed")
    assert request.lines[1].startswith(f"move the region from {A} afterwards")
    assert request.left(site.look()) == [f"{B} still serves region {REGION}"]
    site.online[B].clear()
    assert request.left(site.look()) == []
    site.silent = {B}
    assert request.left(site.look()) == [f"{B} has not said which regions it serves"]


def test_the_copy_that_hbase_meta_names_is_closed_only_if_the_operator_says_so_twice() -> None:
    site = Site()
    site.add(1, served_by=(A, B), last=A)
    refused(lambda snapshot: requests.close_copy(snapshot, REGION, str(A)), site, "clients write to this copy.*--named-by-meta")
    assert requests.close_copy(site.look(), REGION, str(A), named_by_meta=True).lines


def test_the_only_copy_of_a_region_is_not_a_stray_one_unless_its_znode_says_so() -> None:
    site = Site()
    site.add(1, served_by=(A,), last=B)
    refused(lambda snapshot: requests.close_copy(snapshot, REGION, str(A)), site, "has the only copy")
    refused(lambda snapshot: requests.close_copy(snapshot, REGION, str(B)), site, "does not serve region")
    site.add(1, RegionState.OFFLINE, B, served_by=(A,), last=B)
    assert requests.close_copy(site.look(), REGION, str(A)).lines
    site.add(1, RegionState.OPENED, A, served_by=(A,), last=B)
    refused(lambda snapshot: requests.close_copy(snapshot, REGION, str(A)), site, "has the only copy")


@pytest.mark.parametrize(
    ("ask", "state", "words"),
    [
        (requests.enable, TableState.ENABLED, "table t is ENABLED. Nothing is to be done"),
        (requests.enable, TableState.DISABLING, "table t is DISABLING. Wait until that is over"),
        (requests.disable, TableState.DISABLED, "table t is DISABLED. Nothing is to be done"),
    ],
)
def test_a_table_in_another_state_is_refused(ask: Callable[..., OperatorRequest], state: TableState, words: str) -> None:
    site = Site(states={"t": StoredState(state, 0)})
    site.add(1)
    refused(lambda snapshot: ask(snapshot, "t"), site, words)


def test_a_table_is_enabled_and_disabled() -> None:
    site = Site(states={"t": StoredState(TableState.DISABLED, 0)})
    site.add(1, wanted=False)
    request = requests.enable(site.look(), "default:t")
    assert request.lines == ["table t is DISABLED: its 1 regions are opened, and it becomes ENABLED"]
    assert (request.table, request.left(site.look())) == ("t", ["table t is DISABLED"])
    site.states.clear()
    assert request.left(site.look()) == []
    assert requests.disable(site.look(), "t").table == "t"


def test_unknown_tables_and_hbase_s_own_are_refused() -> None:
    site = Site()
    site.add(1)
    refused(lambda snapshot: requests.disable(snapshot, "u\x1b"), site, r"hbase:meta has no region of table u \.")
    site.complete = False
    refused(lambda snapshot: requests.disable(snapshot, "t"), site, "hbase:meta cannot be read")
