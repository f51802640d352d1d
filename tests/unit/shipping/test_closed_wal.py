"""Where a WAL may end that was not closed."""

from __future__ import annotations

import pytest

from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.wal.errors import WalTornError, WalTruncatedError
from walferry.shipping.closed_wal import may_end_with

TRUNCATED, TORN = WalTruncatedError("hdfs://w", 7, need=12, have=5), WalTornError("hdfs://w", 7, "cut off", 12)


@pytest.mark.parametrize("error", [TRUNCATED, TORN])
@pytest.mark.parametrize("policy", list(BrokenWals))
def test_the_newest_wal_of_a_dead_server_ends_with_its_last_whole_entry(
    error: WalTruncatedError | WalTornError, policy: BrokenWals
) -> None:
    assert may_end_with(error, policy, live=False, newest=True)


@pytest.mark.parametrize("policy", list(BrokenWals))
def test_an_older_one_does_unless_it_ends_like_a_closed_one(policy: BrokenWals) -> None:
    assert may_end_with(TRUNCATED, policy, live=False, newest=False)
    assert not may_end_with(TORN, policy, live=False, newest=False)


@pytest.mark.parametrize("newest", [True, False])
def test_one_of_a_live_server_does_only_if_the_run_is_told_so(newest: bool) -> None:
    assert may_end_with(TRUNCATED, BrokenWals.WHOLE_ENTRIES, live=True, newest=newest)
    for error, policy in ((TRUNCATED, BrokenWals.STOP), (TORN, BrokenWals.STOP), (TORN, BrokenWals.WHOLE_ENTRIES)):
        assert not may_end_with(error, policy, live=True, newest=newest)
