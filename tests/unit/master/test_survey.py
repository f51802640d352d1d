"""The list of the regions that are in transition, in trouble or not served."""

from __future__ import annotations

import json
from dataclasses import asdict

from tests.unit.master.looks import DEAD, HMASTER, LATE, A, B, Site, code
from walferry.base.zk.errors import ZNodeValueError
from walferry.master.decide import Region
from walferry.master.states import RegionState
from walferry.master.survey import MISPLACED, NOT_SERVED, OPERATOR, SERVED_TWICE, WALFERRY, survey
from walferry.master.znodes import META_ENCODED_NAME

ESCAPE = "\x1b[2Jgone\r\n{{ conn.slack.password }}"


def test_only_regions_that_are_not_simply_open_or_closed_are_listed() -> None:
    site = Site()
    site.add(1, served_by=(A,))
    site.add(2, wanted=False)
    opening = site.add(3, RegionState.OPENING, B, last=A)
    found = survey(site.look())
    assert (found.known, found.open, [row.region for row in found.rows]) == (3, 1, [opening])
    (row,) = found.rows
    assert (row.table, row.state, row.seconds, row.server, row.stuck) == ("t", "OPENING", 1.0, str(B), False)
    assert row.next == f"RegionServer {B}"
    what = f"region {opening} of t: OPENING"
    assert row.finding.line == f"{what}: at {B} for 1 s: the server opens it. Next, RegionServer {B}: wait"


def test_a_region_that_nobody_serves_is_listed_with_what_the_master_will_do() -> None:
    site = Site()
    site.add(1, last=DEAD)
    (row,) = survey(site.look()).rows
    assert (row.state, row.server, row.next, row.stuck) == (NOT_SERVED, str(DEAD), WALFERRY, True)
    assert row.what == "create the znode as OFFLINE and ask a server to open it"
    assert row.finding.line.startswith(f"region {code(1)} of t: not served: last at {DEAD}: no server serves it. Next, ")


def test_while_a_server_is_silent_it_may_serve_a_region_that_no_other_serves() -> None:
    site = Site(silent={B})
    site.add(1, last=B)
    found = survey(site.look())
    assert (found.rows, found.silent) == ([], [str(B)])


def test_a_region_that_waits_for_wals_says_whose() -> None:
    site = Site(recovering={DEAD})
    site.add(1, RegionState.OPENED, DEAD)
    (row,) = survey(site.look()).rows
    assert (row.server, row.next, row.why) == (str(DEAD), WALFERRY, "the WALs of its dead server are not split yet")
    assert row.what == f"split the WALs of {DEAD}"


def test_a_region_that_two_servers_serve_is_for_people() -> None:
    site = Site()
    site.add(1, served_by=(A, B))
    (row,) = survey(site.look()).rows
    assert (row.state, row.server, row.next, row.stuck) == (SERVED_TWICE, f"{A} and {B}", OPERATOR, True)
    assert "regions close-copy" in row.why


def test_a_region_that_is_served_elsewhere_than_hbase_meta_says_is_told() -> None:
    site = Site()
    site.add(1, served_by=(B,), last=A)
    (row,) = survey(site.look()).rows
    assert (row.state, row.server, row.next, row.stuck) == (MISPLACED, str(B), OPERATOR, True)
    assert row.why == f"hbase:meta names {A}, so clients do not find it"


def test_while_hbase_meta_cannot_be_read_or_a_server_is_silent_a_list_is_not_well() -> None:
    site = Site()
    site.add(1, served_by=(A,))
    assert survey(site.look()).well
    assert not survey(Site(complete=False).look()).well
    site.silent = {B}
    found = survey(site.look())
    assert not found.well
    assert found.unknown == [f"RegionServer {B} has not said which regions it serves"]


def test_regions_of_disabled_tables_and_of_broken_znodes_are_counted() -> None:
    site = Site(broken=[ZNodeValueError(f"/hbase/region-in-transition/{code(2)}", "its state 99 is unknown", "Look")])
    site.add(1, wanted=False)
    site.add(2, served_by=(A,))
    del site.regions[code(2)]  # as a look does with a broken znode
    found = survey(site.look())
    assert (found.known, found.open, found.closed, found.problems) == (2, 0, 1, [])
    assert found.summary() == [
        "0 of 2 regions are open at 2 RegionServers; no master is active",
        "closed, because their tables are disabled: 1",
        "in transition or in trouble, the most urgent first: 1 (1 broken); stuck: 1",
    ]


def test_the_most_urgent_comes_first() -> None:
    site = Site()
    late = site.add(1, RegionState.OPENING, idle=LATE)
    later = site.add(2, RegionState.OPENING, idle=LATE + 1)
    unserved = site.add(3)
    twice = site.add(4, served_by=(A, B))
    fresh = site.add(5, RegionState.OPENING)
    meta = Region(b"hbase:meta,,1", None, None, frozenset(), True, None, 0.0, True)
    site.regions[META_ENCODED_NAME] = meta
    rows = [row.region for row in survey(site.look()).rows]
    assert rows == [META_ENCODED_NAME, twice, unserved, later, late, fresh]


def test_what_is_stuck_comes_first() -> None:
    site = Site()
    site.add(1, RegionState.OPENING)
    late = site.add(2, RegionState.OPENING, idle=LATE)
    assert [(row.region, row.stuck) for row in survey(site.look()).rows] == [(late, True), (code(1), False)]


def test_beside_an_hmaster_it_is_the_hmaster_that_acts_except_for_opens_that_it_waits_for_in_vain() -> None:
    site = Site(hmaster=HMASTER)
    site.add(1, RegionState.CLOSED)
    site.add(2, RegionState.OPENING, idle=LATE)
    rows = {row.region: row for row in survey(site.look()).rows}
    assert rows[code(1)].next == f"HMaster {HMASTER}"
    assert rows[code(2)].next == f"{OPERATOR}, with `regions unstick`"
    assert rows[code(2)].what.startswith("write FAILED_OPEN in the server's place")


def test_beside_an_hmaster_that_does_not_go_on_it_is_said_how_to_go_on_without_it() -> None:
    site = Site(hmaster=HMASTER)
    site.add(1, RegionState.CLOSING, idle=LATE)
    (row,) = survey(site.look()).rows
    assert (row.stuck, row.next) == (True, OPERATOR)
    assert row.why == (
        "its znode is CLOSING, and the HMaster has not gone on with it for 700 s. If it does not, stop the HMaster, use "
        "`regions unstick`, and start it again"
    )


def test_a_broken_znode_is_listed_as_its_own_region_s_trouble_and_its_text_is_harmless() -> None:
    site = Site(broken=[ZNodeValueError(f"/hbase/region-in-transition/{ESCAPE}", ESCAPE + "x" * 100_000, "Look")])
    site.add(1, RegionState.OPENING)
    found = survey(site.look())
    assert [row.state for row in found.rows] == ["broken", "OPENING"]
    text = json.dumps(asdict(found)) + "".join(row.finding.line for row in found.rows)
    assert "\x1b" not in text
    assert "\\u001b" not in text
    assert len(text) < 10_000
