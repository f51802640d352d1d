"""The protection benchmark's figures of drains: ratios to the unsecured peer cluster in the same round."""

from __future__ import annotations

import pytest

from bench.clusters import ROW_BYTES
from bench.protections import UNSECURED, Drain, verdict

GIGABYTE = 1_000_000_000 // ROW_BYTES


def drain(kind: str, seconds: float, *, own: float = 0.0, peer_cluster: float = 0.0) -> Drain:
    return Drain(kind, GIGABYTE, seconds, own, peer_cluster)


def round_of(unsecured: float, tls: float) -> dict[str, Drain]:
    return {UNSECURED: drain(UNSECURED, unsecured), "tls": drain("tls", tls)}


def test_a_drain_tells_its_speed_and_what_a_gigabyte_takes():
    figures = drain("tls", 8, own=5, peer_cluster=30).figures(drain(UNSECURED, 4))

    assert figures == pytest.approx((8, 125, 2, 5, 30), rel=1e-6)


def test_the_verdict_has_the_median_of_the_rounds_ratios_and_not_the_ratio_of_medians():
    rounds = [round_of(10, 20), round_of(20, 30), round_of(40, 48)]

    *_, unsecured, tls = verdict(rounds, {UNSECURED: 0.5, "tls": 2.5}).splitlines()

    assert unsecured.split()[:4] == [UNSECURED, "20.00", "50.0", "1.00"]
    assert tls.split()[:4] == ["tls", "30.00", "33.3", "1.50"]
    assert tls.split()[-1] == "2.50"


def test_the_verdict_keeps_the_order_of_the_kinds_though_rounds_begin_with_another():
    rounds = [dict(reversed(round_of(10, 20).items()))]

    *_, first, second = verdict(rounds, {UNSECURED: 0.5, "tls": 2.5}).splitlines()

    assert [first.split()[0], second.split()[0]] == [UNSECURED, "tls"]
