"""The job that compares a peer's tables at the source and at the peer cluster: one task a region.

The outcome is kept in ZooKeeper (walferry.verification.results).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import ClassVar

from walferry.base.errors import WalferryError
from walferry.base.jobs import Backend, JobOutcome, Tell, check_answers
from walferry.replication.peers.reading import Peer
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.replication.source.source_job import SourceJob
from walferry.verification.job import Options, TableRange
from walferry.verification.outcome import VerificationOutcome, total_of
from walferry.verification.plan import VerifyPlan, both_sides, check_repair, plan_verification
from walferry.verification.results import read_result, write_result
from walferry.verification.snapshots import with_files

MAX_SAMPLES = 5000  # of each kind: the driver has to hold the samples of all ranges


class StaleComparison(WalferryError):
    """A repair belongs to a comparison that is not a peer's newest one any more."""

    retry_helps = False


@dataclass(frozen=True, kw_only=True)
class VerifyRun(SourceJob):
    """A request to compare `tables`; without any, all tables that the peer gets."""

    kind: ClassVar[str] = "verify"
    nothing_done: ClassVar[str] = "nothing is compared"

    tables: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    after_comparison: bool = False  # of these tables and others by the same run, whose result is kept

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Compare, and keep the outcome of each table. Raises WalferryError if the comparison cannot begin."""
        if self.after_comparison:
            self._check_newest()
        plan = self.plan()
        tasks, began = on.cores, time.monotonic()  # known once Spark has started
        outcomes = self.compare(plan, on, say)
        say(f"{time.monotonic() - began:.1f} s to compare, some {tasks} ranges at a time")
        with open_session(self.source, look_only=True) as session:
            # A repair of a run compares fewer tables than the run's comparison.
            before = (read_result(session, self.peer_id, self.run_id) or ()) if self.after_comparison else ()
            others = [each for each in before if each.table not in {outcome.table for outcome in outcomes}]
            write_result(session, self.peer_id, self.run_id, [*others, *outcomes])
        lines = [f"{each.table}: {each.good} good rows, {each.bad_rows} bad ones {each.problem}".rstrip() for each in outcomes]
        return JobOutcome(
            lines=lines, failed=any(each.problem for each in outcomes), result=json.dumps([asdict(each) for each in outcomes])
        )

    def plan(self) -> VerifyPlan:
        """Choose the ranges. Raises WalferryError."""
        with open_session(self.source, look_only=True) as session:
            if self.options.repair:
                check_peer(session, self.peer_id)  # Walferry ships only to its own peers
            return plan_verification(session, self.peer_id, self.tables, self.options)

    def ranges(self, plan: VerifyPlan, say: Tell) -> AbstractContextManager[Sequence[TableRange]]:
        """Return the plan's ranges, with their files for the length of a block if that is asked for. Raises ConnectError."""
        if not self.options.from_files:
            return nullcontext(plan.parts)
        return self._in_snapshots(plan, say)

    @contextmanager
    def _in_snapshots(self, plan: VerifyPlan, say: Tell) -> Iterator[Sequence[TableRange]]:
        with (
            open_session(self.source, look_only=True) as session,
            both_sides(session, plan.peer) as (source, peer_cluster),
            with_files(plan.parts, source, self.source.hbase_root, peer_cluster, self.peer_id, say) as parts,
        ):
            yield parts

    def check_repair(self) -> None:
        """Raise what stands against a repair of these tables. Raises WalferryError."""
        with open_session(self.source, look_only=True) as session:
            check_peer(session, self.peer_id)  # Walferry ships only to its own peers
            check_repair(session, self.peer_id, self.tables)

    def _check_newest(self) -> None:
        """Raise StaleComparison if another run has compared the peer since: this run would replace that one's result."""
        with open_session(self.source, look_only=True) as session:
            if read_result(session, self.peer_id, self.run_id) is None:
                raise StaleComparison(
                    f"another run has compared peer {self.peer_id} since this one did", "Nothing is repaired. Trigger another run"
                )

    def compare(self, plan: VerifyPlan, on: Backend, say: Tell) -> list[VerificationOutcome]:
        """Compare the ranges, one per task. Returns the outcome of each table. Raises ConnectError, BackendFailed."""
        options = replace(self.options, samples=max(1, min(self.options.samples, MAX_SAMPLES // max(1, len(plan.parts)))))
        compare = partial(_compare, self.source, plan.peer, options)
        with self.ranges(plan, say) as ranges:
            parts = on.run(compare, ranges, VerificationOutcome, lost=_lost)
        check_answers("table", (part.table for part in plan.parts), (part.table for part in parts))
        tables = sorted({part.table for part in plan.parts})
        outcomes = [total_of(name, [part for part in parts if part.table == name], self.options.samples) for name in tables]
        return outcomes + [VerificationOutcome(name, problem=problem) for name, problem in plan.problems.items()]


def _compare(source: SourceCluster, peer: Peer, options: Options, part: TableRange) -> VerificationOutcome:
    from walferry.verification.ranges import compare_range

    return compare_range(source, peer, part, options)


def _lost(part: TableRange, why: str) -> VerificationOutcome:
    return VerificationOutcome(part.table, problem=why)
