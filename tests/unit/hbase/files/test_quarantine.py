"""A broken WAL is put aside only if its bytes are lost and the run's policy says so."""

from __future__ import annotations

import pytest

from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.files.quarantine import BrokenWals, to_be_quarantined

URL = "hdfs://nn/hbase/oldWALs/h%2C1%2C2.3"


@pytest.mark.parametrize("policy", list(BrokenWals))
def test_only_lost_bytes_are_given_up_and_only_if_the_run_is_told_so(policy: BrokenWals) -> None:
    lost, away = (UnreadableBytes(URL, 7, "why", "what", lost=each) for each in (True, False))
    assert to_be_quarantined(policy, lost) == (policy is BrokenWals.QUARANTINE)
    assert not to_be_quarantined(policy, away)
