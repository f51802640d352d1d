"""A task loads the regions of its share, one or a few at a time, and says which tables are not loaded, and why."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.hbase.wal.encoder import Entry
from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.shipping.bulkload.jobs import groups_of, job
from tests.unit.shipping.bulkload.wal_files import GOOD, Files, files
from walferry.base.zk.errors import ConnectError
from walferry.hbase.hfiles.errors import TooManyRuns
from walferry.hbase.rpc.errors import ConnectionFailed, RemoteError
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable
from walferry.hbase.wal.errors import WalCorruptError
from walferry.jobs.connect.connect_job import MAX_TEXT_CHARS
from walferry.jobs.workers import LocalProcesses
from walferry.load.errors import LoadOvertaken, NotLoaded, reason_of
from walferry.shipping.bulkload import loading
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion
from walferry.shipping.bulkload.loading import Loaded, Runs, ShareOutcome, load_share
from walferry.shipping.bulkload.region_files import RegionFiles
from walferry.shipping.bulkload.runs import SortedRun
from walferry.shipping.bulkload.shares import Share, shares_of
from walferry.shipping.bulkload.survey import survey_wal

__all__ = ["files"]  # a fixture

T, U = (0, 1), (2, 3)  # regions of tables t and u


class Loader:
    """Notes what it is given to load, and fails as it is told."""

    def __init__(self, errors: dict[int, Exception]) -> None:
        self.errors = errors
        self.loaded: dict[int, list[bytes]] = {}

    def load(self, planned: PlannedRegion, runs: Runs, _: RegionFiles) -> Loaded:
        number = job().regions.index(planned)
        if error := self.errors.get(number):
            raise error
        self.loaded[number] = [bytes(run.read_at(0, run.size)) for some in runs.values() for run in some]
        return Loaded(1, 10, 1)


Load = Callable[..., tuple[ShareOutcome, Loader]]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """`load({region: cells})` → the outcome, and the loader. One region is loaded at a time, the one with most cells first.

    The WALs have as many cells as the share says, but for those in `found`. `unread` is the error that reading ends with.
    """

    def load(
        cells: dict[int, int], errors: dict[int, Exception] | None = None, away: Exception | None = None,
        found: dict[int, int] | None = None, unread: Exception | None = None,
    ) -> Any:  # fmt: skip
        loader = Loader(errors or {})

        @contextmanager
        def loaders(job: LoadJob, session: object, count: int) -> Iterator[queue.SimpleQueue[Loader]]:
            if away is not None:
                raise away
            one: queue.SimpleQueue[Loader] = queue.SimpleQueue()
            one.put(loader)
            yield one

        def runs(*_: object) -> Iterator[list[SortedRun]]:
            yield [
                SortedRun(region, count, np.full(count, region, np.uint8)) for region, count in (cells | (found or {})).items()
            ]
            if unread is not None:
                raise unread

        monkeypatch.setattr(loading, "_loaders", loaders)
        monkeypatch.setattr(loading, "open_session", lambda _: nullcontext())
        monkeypatch.setattr(loading, "sorted_runs", runs)
        (wals,) = groups_of(2)
        outcome = load_share(job(wals=wals), Share(tuple(cells.items()), ((0, 0), (1, 0))))
        return ShareOutcome.from_json(outcome.to_json()), loader

    return load


def test_each_region_is_loaded_with_its_runs(load: Load) -> None:
    outcome, loader = load({0: 2, 3: 1})
    assert outcome == ShareOutcome(0, 2, Loaded(2, 20, 2))
    assert loader.loaded == {0: [b"\0\0"], 3: [b"\3"]}


def test_of_a_table_that_cannot_be_loaded_no_more_regions_are_but_those_of_others(load: Load) -> None:
    for error in (RemoteError("rs", "x.NotServing", "no"), NotLoaded("no"), MissingTable("t", "peer_cluster"), TooManyRuns(2, 1)):
        outcome, loader = load({T[0]: 9, T[1]: 8, U[0]: 7}, {0: error})
        assert (outcome.regions, outcome.failed) == (1, {str(error): ("t",)})
        assert list(loader.loaded) == [2]


@pytest.mark.parametrize("error", [LoadOvertaken("over"), ConnectionFailed("rs", "refused"), TimeoutError("timed out")])
def test_nothing_more_is_loaded_once_the_peer_cluster_is_silent_or_the_load_is_over(load: Load, error: Exception) -> None:
    outcome, loader = load({0: 9, 1: 8, 2: 7}, {0: error})
    assert outcome == ShareOutcome(0, failed={str(error): ("t", "u")})
    assert not loader.loaded


@pytest.mark.parametrize("error", [TimeoutError(), OSError(), NotLoaded("  \n")])
def test_an_error_without_words_is_an_error(load: Load, error: Exception) -> None:
    """Without a reason its table would count as loaded."""
    outcome, _ = load({0: 1}, {0: error})
    assert outcome.failed == {type(error).__name__: ("t",)}
    assert reason_of(error)


@pytest.mark.parametrize("cells", [0, 1, 3])
def test_nothing_is_loaded_if_a_region_has_other_cells_than_before(load: Load, cells: int) -> None:
    """Otherwise edits that one of two readings has not seen would count as shipped."""
    outcome, loader = load({0: 2, 2: 5}, found={0: cells})
    assert outcome.changed.startswith(f"the WALs had 2 cells for region t-0, and {cells} when they were read again")
    assert (outcome.regions, outcome.failed, loader.loaded) == (0, {}, {})


GREW, OTHER = [*GOOD, entry(put(row=b"zz"))], [entry(put(row=b"a"), put(row=b"y")), entry(put(row=b"b"))]


@pytest.mark.slow
@pytest.mark.parametrize("then", [GREW, OTHER, GOOD[:1]], ids=["grown", "of other content", "cut"])
def test_nothing_is_loaded_of_a_wal_with_other_entries_than_before(
    files: Files, monkeypatch: pytest.MonkeyPatch, then: list[Entry]
) -> None:
    """Also if the regions of the share have as many cells as before."""
    monkeypatch.setattr(loading, "_loaders", lambda *_: pytest.fail("it loads"))
    files.put(0, GOOD)
    made = files.job(wals=files.wals(1))
    first = survey_wal(made, 0)
    (share, *_) = shares_of([(made.wals[0], first)], [0], LocalProcesses(1))
    files.put(0, then)
    outcome = load_share(files.job(wals=files.wals(1)), share)
    assert outcome.changed.startswith(f"WAL {made.wals[0].name} has other entries than when it was read first")


def test_of_wals_that_cannot_be_read_again_nothing_is_loaded(load: Load) -> None:
    outcome, loader = load({0: 1, 3: 1}, unread=WalCorruptError("hdfs://a/wal", 7, "it has changed"))
    ((why, tables),) = outcome.failed.items()
    assert "hdfs://a/wal" in why
    assert (outcome.regions, set(tables), loader.loaded) == (0, {"t", "u"}, {})


def test_of_a_cluster_that_cannot_be_reached_no_region_is_loaded(load: Load) -> None:
    outcome, _ = load({0: 1, 3: 1}, away=ConnectError("away"))
    assert (outcome.regions, {why: set(tables) for why, tables in outcome.failed.items()}) == (0, {"away": {"t", "u"}})


@pytest.mark.parametrize("lead_is_away", [False, True])
def test_what_befalls_one_of_several_peers_leaves_the_others_be(monkeypatch: pytest.MonkeyPatch, lead_is_away: bool) -> None:
    """Each peer's regions are loaded, but for those of a peer whose cluster is away or refuses a table."""
    loaders = {"p": Loader({}), "q": Loader({0: RemoteError("rs", "x.Y", "no")}), "r": Loader({})}
    away = "p" if lead_is_away else "r"

    @contextmanager
    def opened(job: LoadJob, session: object, count: int) -> Iterator[queue.SimpleQueue[Loader]]:
        if job.peer_id == away:
            raise ConnectError("away")
        one: queue.SimpleQueue[Loader] = queue.SimpleQueue()
        one.put(loaders[job.peer_id])
        yield one

    monkeypatch.setattr(loading, "_loaders", opened)
    monkeypatch.setattr(loading, "open_session", lambda _: nullcontext())
    monkeypatch.setattr(loading, "sorted_runs", lambda *_: [[SortedRun(number, 1, np.zeros(1, np.uint8)) for number in (0, 2)]])
    (wals,) = groups_of(1)
    made = job(wals=wals, also=(job(peer_id="q"), job(peer_id="r")))
    monkeypatch.setattr(loading, "_same_edits", lambda *_: ())
    outcome = load_share(made, Share(((0, 1), (2, 1)), ((0, 0),)))
    found = [ShareOutcome.from_json(outcome.to_json()).of_peer(number) for number in range(3)]
    assert found[1] == ShareOutcome(0, 1, Loaded(1, 10, 1), {"rs: Y: no": ("t",)})
    none, both = ShareOutcome(0, failed={"away": ("t", "u")}), ShareOutcome(0, 2, Loaded(2, 20, 2))
    assert [replace(found[0], others=()), found[2]] == ([none, both] if lead_is_away else [both, none])
    assert {name: set(loader.loaded) for name, loader in loaders.items()} == {"p": {0, 2}, "q": {2}, "r": {0, 2}} | {away: set()}


def test_no_peer_waits_for_those_after_it_and_a_silent_partner_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[str, int]] = []

    class Noting(Loader):
        def __init__(self, peer_id: str, errors: dict[int, Exception]) -> None:
            super().__init__(errors)
            self.peer_id = peer_id

        def load(self, planned: PlannedRegion, runs: Runs, made: RegionFiles) -> Loaded:
            order.append((self.peer_id, job().regions.index(planned)))
            return super().load(planned, runs, made)

    errors = dict.fromkeys((0, 2), RegionUnavailable("in transition"))

    @contextmanager
    def opened(job: LoadJob, session: object, count: int) -> Iterator[queue.SimpleQueue[Loader]]:
        one: queue.SimpleQueue[Loader] = queue.SimpleQueue()
        one.put(Noting(job.peer_id, errors if job.peer_id == "q" else {}))
        yield one

    monkeypatch.setattr(loading, "_loaders", opened)
    monkeypatch.setattr(loading, "open_session", lambda _: nullcontext())
    monkeypatch.setattr(loading, "sorted_runs", lambda *_: [[SortedRun(number, 1, np.zeros(1, np.uint8)) for number in (0, 2)]])
    monkeypatch.setattr(loading, "_same_edits", lambda *_: ())
    (wals,) = groups_of(1)
    outcome = load_share(job(wals=wals, also=(job(peer_id="q"), job(peer_id="r"))), Share(((0, 1), (2, 1)), ((0, 0),)))
    assert [peer for peer, _ in order] == ["p", "p", "q", "r", "r"]
    assert [outcome.of_peer(number).regions for number in range(3)] == [2, 0, 2]


def test_the_reasons_of_all_peers_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that JSON writes with six characters for one."""
    why = {f"t{number}": f"{number}" + "\u00e9" * 1500 for number in range(400)}
    assert len(json.dumps(loading._bounded(why))) < MAX_TEXT_CHARS // 3


def test_what_goes_wrong_otherwise_fails_the_task(load: Load) -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        load({0: 1}, {0: RuntimeError("a bug")})


def test_the_reasons_of_many_tables_do_not_make_an_outcome_too_long() -> None:
    why = {f"namespace:table_{number}": f"{number} " + "x" * 1900 for number in range(5000)}
    outcome = ShareOutcome(0, failed=loading._bounded(why))
    assert len(outcome.to_json()) < MAX_TEXT_CHARS
    assert {table for tables in outcome.failed.values() for table in tables} == why.keys()
    assert all(outcome.failed)


def test_outcomes_are_read_as_they_were_written() -> None:
    outcome = ShareOutcome(7, 3, Loaded(1, 2, 3), {"broken": ("t", "ns:u")}, "changed")
    assert ShareOutcome.from_json(outcome.to_json()) == outcome
    (why,) = loading._bounded({"t": "two\nlines"})
    assert "\n" not in why
