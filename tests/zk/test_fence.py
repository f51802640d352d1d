"""A run or task that another one has overtaken changes nothing of an initial snapshot any more."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.copy_records import BEGUN, DONE, GROUP, TABLE, writing
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.load.copy_records import TableRecord
from walferry.load.errors import Overtaken
from walferry.load.records import Folder, Load, loads_of
from walferry.replication.source.cluster import SourceCluster


def test_a_run_that_another_one_has_overtaken_writes_nothing_more(zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster) -> None:
    session = session_of(zk, hbase)
    with writing(session, at, run="paused") as paused:
        state = paused.begin("paused")
        paused.begin_table("t", TABLE)
        region, untouched = paused.held("t", "r1"), paused.held("t", "r2")
        region.put(BEGUN)
    region.check()  # no other task has come yet
    with writing(session, at, run="other") as other:
        for write in (
            region.check, lambda: region.put(DONE), lambda: untouched.put(BEGUN), lambda: paused.complete(state),
            lambda: paused.begin_table("u", TABLE),
        ):  # fmt: skip
            with pytest.raises(Overtaken, match="another run has taken over the initial snapshot of peer p"):
                write()
        other.complete(replace(state, complete=True))
    with pytest.raises(Overtaken):
        untouched.put(BEGUN)
    assert other.table("t") is None


def test_a_run_that_another_one_has_overtaken_deletes_nothing_either(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    """The run was paused before it cleaned up. The other copy's border keeps older edits from lying over the copy."""
    session = session_of(zk, hbase)
    with writing(session, at, run="paused") as paused:
        state = paused.begin("paused")
        paused.complete(replace(state, complete=True))
    with writing(session, at, run="other") as other:
        state = other.begin("other")
        border = other.add_border(Load("other", {GROUP: f"{GROUP}.5"}, initial_snapshot=True))
        record = TableRecord("life", border, whole=True, families=("f",))
        other.begin_table("t", record)
        other.held("t", "r1").put(DONE)
        late = (
            paused._forget_tables, lambda: paused.forget_region("t", "r1"), lambda: paused.begin_table_anew("t", TABLE),
            lambda: paused.begin("paused"),
        )  # fmt: skip
        for deletion in late:
            with suppress(Overtaken):
                deletion()
        assert (other.table("t"), other.names("t")) == (record, ["r1"])
        other.complete(replace(state, complete=True))
    (load,) = loads_of(session, "p")
    assert dict(load.groups) == {GROUP: f"{GROUP}.5"}
    assert other.table("t") is None


def test_a_retry_of_the_same_run_puts_out_the_attempt_before(zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster) -> None:
    session = session_of(zk, hbase)
    with writing(session, at) as before:
        before.begin("run")
        before.begin_table("t", TABLE)
        region = before.held("t", "r1")
        with writing(session, at) as retry:
            with pytest.raises(Overtaken):
                region.put(BEGUN)
            retry.held("t", "r1").put(BEGUN)


def test_of_two_tasks_with_the_same_region_only_the_later_one_may_load(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    with writing(session, at) as records:
        records.begin("run")
        records.begin_table("t", TABLE)
        lost, later, late = (records.held("t", "r1") for _ in range(3))
        lost.put(BEGUN)
        with pytest.raises(Overtaken, match="another task has written"):
            later.put(BEGUN)  # it does not know the first task's folder
        later = records.held("t", "r1")
        assert later.record is not None
        assert later.record.staging == BEGUN.staging
        later.put(BEGUN)
        with pytest.raises(Overtaken, match="another task has written"):
            lost.check()
        records.forget_region("t", "r1")
        for task in (lost, later):
            with pytest.raises(Overtaken):
                task.check()
        late.put(BEGUN)


def test_the_folder_of_a_task_is_noted_until_its_region_is_copied_and_another_task_s_is_not_noted_over_it(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session, region = session_of(zk, hbase), b"t,,1.abc.".hex()
    with writing(session, at) as records:
        records.begin("run")
        records.begin_table("t", TABLE)
        mine, other = records.held("t", "r1"), records.held("t", "r1")
        mine.note(Folder("hdfs://peer/staging/one", "t", region))
        mine.check()
        with pytest.raises(Overtaken, match="another task has written"):
            other.note(Folder("hdfs://peer/staging/other", "t", region))
        mine.forget()
        found = records.held("t", "r1").record
        assert found is not None
        assert (found.staging, found.peer_cluster_region, found.way) == ("hdfs://peer/staging/one", region, "")
        mine.put(DONE)
        found = records.held("t", "r1").record
        assert found is not None
        assert (found.staging, found.way) == ("", DONE.way)


def test_once_the_peer_was_enabled_nothing_of_an_older_snapshot_is_loaded_or_noted(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    """HBase has shipped edits newer than the snapshot: also deletions, which the peer cluster may have compacted away since."""
    session = session_of(zk, hbase)
    with writing(session, at) as records:
        state = records.begin("run")
        records.begin_table("t", TABLE)
        region, untouched = records.held("t", "r1"), records.held("t", "r2")
        region.put(BEGUN)
        region.check()
        hbase.set_state("p", "ENABLED")
        hbase.set_state("p", "DISABLED")
        for write in (
            region.check, lambda: region.put(DONE), lambda: untouched.put(BEGUN), lambda: records.complete(state),
            lambda: records.begin_table("u", TABLE), lambda: records.forget_region("t", "r1"),
        ):  # fmt: skip
            with pytest.raises(Overtaken, match="the peer may have been enabled"):
                write()
    with writing(session, at) as again:  # a later attempt takes new snapshots, and goes on
        held = again.held("t", "r1")
        assert held.record is not None
        assert held.record.staging == BEGUN.staging
        held.put(DONE)
