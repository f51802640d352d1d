"""The full explanation of one region."""

from __future__ import annotations

import json

import pytest

from tests.unit.master.looks import DEAD, A, B, Site, code, name_of
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.names import ServerName
from walferry.master.errors import Refused
from walferry.master.explain import _RULES, as_lines, explain
from walferry.master.plans import Plan
from walferry.master.states import RegionState
from walferry.master.survey import OPERATOR, UNKNOWN

ESCAPE = "\x1b[2Jgone\r\n{{ conn.slack.password }}"


def test_a_region_that_a_silent_server_may_serve_is_unknown_and_not_well() -> None:
    site = Site(silent={B})
    encoded = site.add(1, last=B)
    reported = explain(site.look(), encoded)
    assert (reported["state"], reported["stuck"], reported["silent"]) == (UNKNOWN, True, [str(B)])


@pytest.mark.parametrize(("served_by", "wanted", "state"), [((A,), True, "open"), ((), False, "closed")])
def test_for_a_region_that_is_simply_open_or_closed_nothing_comes_next(
    served_by: tuple[ServerName, ...], wanted: bool, state: str
) -> None:
    site = Site()
    encoded = site.add(1, served_by=served_by, wanted=wanted)
    reported = explain(site.look(), encoded)
    assert (reported["state"], reported["stuck"], reported["next"], reported["what"]) == (
        state,
        False,
        "nobody",
        "nothing is to be done",
    )


def test_all_that_is_known_of_a_region_is_told() -> None:
    site = Site(recovering={DEAD})
    encoded = site.add(1, RegionState.CLOSING, DEAD, plan=Plan(B, True, "balance", 2), idle=30.0)
    reported = explain(site.look(), encoded)
    assert json.loads(json.dumps(reported)) == reported
    assert reported["hbase:meta"] == {
        "name": name_of(1).decode(), "table": "t", "enabled": True, "server": str(A), "since": "2023-11-14T22:13:20+00:00"
    }  # fmt: skip
    assert (reported["znode"]["state"], reported["znode"]["server"], reported["znode"]["server_is_live"]) == (
        "CLOSING",
        str(DEAD),
        False,
    )
    assert reported["plan"] == {"destination": str(B), "reopen": True, "failures": 2, "why": "balance"}
    assert reported["wals"] == {"server": str(DEAD), "state": "they are not split yet"}
    assert (reported["served_by"], reported["silent"], reported["problems"]) == ([], [], [])
    assert reported["rule"].endswith("(REGIONSERVER 2).")
    lines = list(as_lines(reported))
    assert lines[:2] == [f"region: {encoded}", "state: CLOSING"]
    assert {"served by: none", "  server is live: no", "  destination: rs1.example.org,16020,1700000000001"} <= set(lines)


@pytest.mark.parametrize("asked", [code(1), name_of(1).decode()])
def test_a_region_is_known_by_its_encoded_and_its_full_name(asked: str) -> None:
    site = Site()
    site.add(1, served_by=(A,))
    reported = explain(site.look(), asked)
    assert (reported["region"], reported["state"], reported["served_by"]) == (code(1), "open", [str(A)])


def test_a_region_with_a_broken_znode_is_told_with_what_is_wrong() -> None:
    site = Site(broken=[ZNodeValueError(f"/hbase/region-in-transition/{code(1)}", f"its state 99 is unknown{ESCAPE}", "Look")])
    reported = explain(site.look(), code(1))
    assert reported["next"] == OPERATOR
    (problem,) = reported["problems"]
    assert "its state 99 is unknown" in problem
    assert "\x1b" not in problem


def test_an_unknown_region_is_refused_and_its_name_is_harmless() -> None:
    with pytest.raises(Refused, match="is neither in hbase:meta nor in transition") as refused:
        explain(Site().look(), ESCAPE)
    assert "\x1b" not in str(refused.value)


def test_every_state_has_its_sentence_of_the_protocol() -> None:
    assert _RULES.keys() == {None, *RegionState}
