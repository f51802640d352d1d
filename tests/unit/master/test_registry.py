"""Which RegionServers may start and go on, as they hear it over a real connection."""

import logging

import pytest

from tests.unit.master.called_master import A_LATER, A, B, master, registry, report, start
from walferry.hbase.rpc.errors import RemoteError

__all__ = ["master", "registry"]  # fixtures


@pytest.mark.parametrize("skew", [-31.0, 31.0])
def test_a_server_whose_clock_is_far_off_is_refused(master, registry, skew):
    with pytest.raises(RemoteError, match=r"ClockOutOfSyncException: .*the clock of a\.example\.org,16020,100 is 31\.0 s off"):
        start(master, A, skew)


def test_a_server_whose_clock_is_a_little_off_is_let_in_with_a_warning(master, registry, caplog):
    with caplog.at_level(logging.WARNING):
        start(master, A, 11.0)
        start(master, B, 9.0, host="b.example.org")
    assert [record.getMessage() for record in caplog.records] == [
        "the clock of a.example.org,16020,100 is 11.0 s off; a server is refused from 30 s on"
    ]


def test_a_server_that_was_given_up_is_told_that_it_is_dead(master, registry):
    start(master, A)
    registry.give_up(A)
    for call in (lambda: report(master, A), lambda: start(master, A)):
        with pytest.raises(RemoteError, match=r"YouAreDeadException: .*a\.example\.org,16020,100") as raised:
            call()
        assert not raised.value.do_not_retry
    start(master, A_LATER)
    report(master, A_LATER)
    assert registry.dead == {A}


@pytest.mark.parametrize("call", [start, report])
def test_a_caller_that_names_a_newer_server_of_a_host_and_port_does_not_end_the_older_one(master, registry, call):
    start(master, A)
    call(master, A_LATER)
    report(master, A)  # only the end of its session in ZooKeeper says that it is dead
    assert not registry.dead
