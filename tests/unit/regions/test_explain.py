"""What is told of regions: the rows of a list, and all that is known of one region."""

from __future__ import annotations

import json

import pytest

from tests.unit.regions.looks import DEAD, HMASTER, LATE, A, B, Site, code, name_of
from walferry.hbase.errors import ZNodeValueError
from walferry.names import ServerName
from walferry.regions.decide import Region
from walferry.regions.errors import Refused
from walferry.regions.explain import (
    _RULES,
    MISPLACED,
    NOT_SERVED,
    OPERATOR,
    SERVED_TWICE,
    UNKNOWN,
    WALFERRY,
    as_lines,
    explain,
    survey,
)
from walferry.regions.plans import Plan
from walferry.regions.states import State
from walferry.regions.znodes import META_ENCODED_NAME

ESCAPE = "\x1b[2Jgone\r\n{{ conn.slack.password }}"


def test_only_regions_that_are_not_simply_open_or_closed_are_listed() -> None:
    site = Site()
    site.add(1, served_by=(A,))
    site.add(2, wanted=False)
    opening = site.add(3, State.OPENING, B, last=A)
    found = survey(site.look())
    assert (found.known, found.open, [row.region for row in found.rows]) == (3, 1, [opening])
    (row,) = found.rows
    assert (row.table, row.state, row.seconds, row.server, row.stuck) == ("t", "OPENING", 1.0, str(B), False)
    assert row.next == f"RegionServer {B}"
    assert row.line() == (
        f"region {opening} of t is OPENING at {B} for 1 s: the server opens it. Next, RegionServer {B}: wait"
    )


def test_a_region_that_nobody_serves_is_listed_with_what_the_master_will_do() -> None:
    site = Site()
    site.add(1, last=DEAD)
    (row,) = survey(site.look()).rows
    assert (row.state, row.server, row.next, row.stuck) == (NOT_SERVED, str(DEAD), WALFERRY, True)
    assert row.what == "create the znode as OFFLINE and ask a server to open it"
    assert row.line().startswith(f"region {code(1)} of t is not served, last at {DEAD}: no server serves it. Next, ")


def test_while_a_server_is_silent_it_may_serve_a_region_that_no_other_serves() -> None:
    site = Site(silent={B})
    site.add(1, last=B)
    found = survey(site.look())
    assert (found.rows, found.silent) == ([], [str(B)])


def test_a_region_that_waits_for_wals_says_whose() -> None:
    site = Site(recovering={DEAD})
    site.add(1, State.OPENED, DEAD)
    (row,) = survey(site.look()).rows
    assert (row.server, row.next, row.why) == (str(DEAD), WALFERRY, "the WALs of its dead server are not split yet")
    assert row.what == f"split the WALs of {DEAD}"


def test_a_region_that_two_servers_serve_is_for_people() -> None:
    site = Site()
    site.add(1, served_by=(A, B))
    (row,) = survey(site.look()).rows
    assert (row.state, row.server, row.next, row.stuck) == (SERVED_TWICE, f"{A} and {B}", OPERATOR, True)
    assert "regions close-stray" in row.why


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


def test_a_region_that_a_silent_server_may_serve_is_unknown_and_not_well() -> None:
    site = Site(silent={B})
    encoded = site.add(1, last=B)
    told = explain(site.look(), encoded)
    assert (told["state"], told["stuck"], told["silent"]) == (UNKNOWN, True, [str(B)])


@pytest.mark.parametrize(("served_by", "wanted", "state"), [((A,), True, "open"), ((), False, "closed")])
def test_for_a_region_that_is_simply_open_or_closed_nothing_comes_next(
    served_by: tuple[ServerName, ...], wanted: bool, state: str
) -> None:
    site = Site()
    encoded = site.add(1, served_by=served_by, wanted=wanted)
    told = explain(site.look(), encoded)
    assert (told["state"], told["stuck"], told["next"], told["what"]) == (state, False, "nobody", "nothing is to be done")


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
    late = site.add(1, State.OPENING, idle=LATE)
    later = site.add(2, State.OPENING, idle=LATE + 1)
    unserved = site.add(3)
    twice = site.add(4, served_by=(A, B))
    fresh = site.add(5, State.OPENING)
    meta = Region(b"hbase:meta,,1", None, None, frozenset(), True, None, 0.0, True)
    site.regions[META_ENCODED_NAME] = meta
    rows = [row.region for row in survey(site.look()).rows]
    assert rows == [META_ENCODED_NAME, twice, unserved, later, late, fresh]


def test_what_is_stuck_comes_first() -> None:
    site = Site()
    site.add(1, State.OPENING)
    late = site.add(2, State.OPENING, idle=LATE)
    assert [(row.region, row.stuck) for row in survey(site.look()).rows] == [(late, True), (code(1), False)]


def test_beside_an_hmaster_it_is_the_hmaster_that_acts_except_for_opens_that_it_waits_for_in_vain() -> None:
    site = Site(hmaster=HMASTER)
    site.add(1, State.CLOSED)
    site.add(2, State.OPENING, idle=LATE)
    rows = {row.region: row for row in survey(site.look()).rows}
    assert rows[code(1)].next == f"HMaster {HMASTER}"
    assert rows[code(2)].next == f"{OPERATOR}, with `regions unstick`"
    assert rows[code(2)].what.startswith("write FAILED_OPEN in the server's place")


def test_beside_an_hmaster_that_does_not_go_on_it_is_said_how_to_go_on_without_it() -> None:
    site = Site(hmaster=HMASTER)
    site.add(1, State.CLOSING, idle=LATE)
    (row,) = survey(site.look()).rows
    assert (row.stuck, row.next) == (True, OPERATOR)
    assert row.why == (
        "its znode is CLOSING, and the HMaster has not gone on with it for 700 s. If it does not, stop the HMaster, use "
        "`regions unstick`, and start it again"
    )


def test_a_broken_znode_is_listed_as_its_own_region_s_trouble_and_its_text_is_harmless() -> None:
    site = Site(broken=[ZNodeValueError(f"/hbase/region-in-transition/{ESCAPE}", ESCAPE + "x" * 100_000, "Look")])
    site.add(1, State.OPENING)
    found = survey(site.look())
    assert [row.state for row in found.rows] == ["broken", "OPENING"]
    text = json.dumps(found.to_json()) + "".join(row.line() for row in found.rows)
    assert "\x1b" not in text
    assert "\\u001b" not in text
    assert len(text) < 10_000


def test_all_that_is_known_of_a_region_is_told() -> None:
    site = Site(recovering={DEAD})
    encoded = site.add(1, State.CLOSING, DEAD, plan=Plan(B, True, "balance", 2), idle=30.0)
    told = explain(site.look(), encoded)
    assert json.loads(json.dumps(told)) == told
    assert told["hbase:meta"] == {
        "name": name_of(1).decode(), "table": "t", "enabled": True, "server": str(A), "since": "2023-11-14T22:13:20+00:00"
    }  # fmt: skip
    assert (told["znode"]["state"], told["znode"]["server"], told["znode"]["server_is_live"]) == ("CLOSING", str(DEAD), False)
    assert told["plan"] == {"destination": str(B), "reopen": True, "failures": 2, "why": "balance"}
    assert told["wals"] == {"server": str(DEAD), "state": "they are not split yet"}
    assert (told["served_by"], told["silent"], told["problems"]) == ([], [], [])
    assert told["rule"].endswith("(REGIONSERVER 2).")
    lines = list(as_lines(told))
    assert lines[:2] == [f"region: {encoded}", "state: CLOSING"]
    assert {"served by: none", "  server is live: no", "  destination: rs1.example.org,16020,1700000000001"} <= set(lines)


@pytest.mark.parametrize("asked", [code(1), name_of(1).decode()])
def test_a_region_is_known_by_its_encoded_and_its_full_name(asked: str) -> None:
    site = Site()
    site.add(1, served_by=(A,))
    told = explain(site.look(), asked)
    assert (told["region"], told["state"], told["served_by"]) == (code(1), "open", [str(A)])


def test_a_region_with_a_broken_znode_is_told_with_what_is_wrong() -> None:
    site = Site(broken=[ZNodeValueError(f"/hbase/region-in-transition/{code(1)}", f"its state 99 is unknown{ESCAPE}", "Look")])
    told = explain(site.look(), code(1))
    assert told["next"] == OPERATOR
    (problem,) = told["problems"]
    assert "its state 99 is unknown" in problem
    assert "\x1b" not in problem


def test_an_unknown_region_is_refused_and_its_name_is_harmless() -> None:
    with pytest.raises(Refused, match="is neither in hbase:meta nor in transition") as refused:
        explain(Site().look(), ESCAPE)
    assert "\x1b" not in str(refused.value)


def test_every_state_has_its_sentence_of_the_protocol() -> None:
    assert _RULES.keys() == {None, *State}
