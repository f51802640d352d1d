"""Findings are bounded lines, and one cause is reported once."""

from __future__ import annotations

import json

import pytest
from kazoo.exceptions import NoAuthError

from walferry.base.errors import WalferryError
from walferry.base.findings import MAX_LINE_CHARS, MAX_TEXT_CHARS, Finding, checked, found_by, note, once, well, wrong


def test_a_finding_says_what_it_is_about() -> None:
    finding = note("shipping", "it is paused", "Resume it", "peer p")
    assert finding.line == "peer p: shipping: it is paused. Resume it"
    assert json.loads(json.dumps(finding.to_json())) == {
        "kind": "shipping", "severity": "note", "text": "it is paused", "advice": "Resume it", "about": "peer p"
    }  # fmt: skip
    assert well("Master", "it is active").line == "Master: it is active"


def test_texts_from_outside_are_bounded_lines() -> None:
    finding = wrong("Master", "bad\nthing" + "x" * 10_000, "y" * 10_000)
    assert (len(finding.text), "\n" in finding.line, len(finding.line)) == (MAX_TEXT_CHARS, False, MAX_LINE_CHARS)


def test_errors_are_findings_and_mistakes_are_not() -> None:
    def refused() -> str:
        raise NoAuthError

    def odd() -> list[Finding]:
        raise WalferryError("it is odd", "Mend it")

    assert "ZooKeeper has refused a request: NoAuthError" in checked("peers", refused).text
    assert [each.line for each in found_by("queues", odd, "peer p")] == ["peer p: queues: it is odd. Mend it"]
    with pytest.raises(ZeroDivisionError):
        checked("peers", lambda: str(1 // 0))


def test_what_is_wrong_for_an_earlier_reason_is_left_out() -> None:
    found = [
        wrong("keytab", "keytab k holds no key of w", about="source"),
        wrong("ticket", "no ticket: keytab k holds no key of w", about="source"),
        wrong("Master", "the Master does not let us in: no ticket: keytab k holds no key of w"),
        well("ZooKeeper", "it answers"),
        wrong("RegionServers", "none is live"),
        wrong("RegionServers", "none is live", about="cluster of peer p"),
    ]
    assert [each.what for each in once(found)] == [
        "source: keytab", "ZooKeeper", "RegionServers", "cluster of peer p: RegionServers"
    ]  # fmt: skip
