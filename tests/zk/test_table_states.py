"""A table's state changes only as the protocol allows."""

from __future__ import annotations

import pytest

from tests.zk.flows import Flows, flows
from walferry.master.errors import TableStateChanged, WrongTableState
from walferry.master.tables import ABSENT, StoredState, TableState, read_state, write_state

__all__ = ["flows"]  # a fixture


def test_a_table_s_state_changes_only_from_the_state_and_version_that_were_read(flows: Flows) -> None:
    world = flows.world
    with pytest.raises(WrongTableState, match="ENABLED"):
        write_state(world.nodes, flows.lock, "t", ABSENT, TableState.DISABLED)
    write_state(world.nodes, flows.lock, "t", ABSENT, TableState.DISABLING)
    assert read_state(world.zk, world.nodes, "t") == StoredState(TableState.DISABLING, 0)
    for seen in (ABSENT, StoredState(TableState.ENABLED, 7)):
        with pytest.raises(TableStateChanged):
            write_state(world.nodes, flows.lock, "t", seen, TableState.DISABLING)
