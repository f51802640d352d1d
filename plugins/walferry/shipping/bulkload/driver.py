"""Loads a peer's queued WALs as files: the work of a Spark job's driver before and after the tasks.

    take the leases of the groups, read their WALs and positions, find the files
    look at the peer cluster's tables                             peer_load.py, targets.py
    do the same for peers whose files are made together           shared.py
    note the load                                                 load/records.py
    try whether the peer cluster takes files at all
    tasks: read, filter, count the edits of each region           survey.py
    deal the regions out to tasks                                 shares.py
    tasks: read, filter, sort, merge, write, load                 loading.py
    note what is loaded                                           from here on these edits count as shipped, and no task
    have the folders deleted that tasks have left                 can load anything any more
    take the WALs of groups that are loaded completely out of the queues, give up the leases

A group may have edits that are left over, such as edits of a table that is unfit for files. Such groups are then shipped by
requests as always, but without the edits that are loaded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from walferry.base.errors import WalferryError
from walferry.base.jobs import Backend, Tell
from walferry.engine.summary import GroupSummary
from walferry.load.errors import EditsDiffer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.load_spread import load_all, survey_all
from walferry.shipping.bulkload.outcome import Verdict, verdict_of
from walferry.shipping.bulkload.peer_load import NotForFiles, PeerLoad, TakenGroup, loadable_peer, peer_load, take_groups
from walferry.shipping.bulkload.shared import for_load, for_survey, parts_of, why_not_shared
from walferry.shipping.bulkload.shares import Share, shares_of
from walferry.shipping.bulkload.survey import WalSurvey, Wanted, wanted_of
from walferry.shipping.group_job import GroupJob, Left, left_to_itself

PARTNERS_PART = 0.5  # of the time until the deadline, in which partners' regions are loaded; the rest is the lead's alone
PARTNERS_PATIENCE_SECONDS = 20.0


def load_backlog(
    jobs: Sequence[GroupJob], on: Backend, *, also: Sequence[Sequence[GroupJob]] = (), say: Tell = print, tell: Tell = print
) -> Left:
    """Load as many of the groups' edits as possible, unless an initial snapshot is under way.

    The jobs are one run's. `also` has the jobs of other peers, which get the same files if they have queued the same WALs. `say`
    gets the log's lines, `tell` the progress. Uses the backend only if there is anything to load. Raises LeaseLost,
    LoadOvertaken, StaleLoad, and the tasks' errors: then no WAL leaves its queue; the next try begins again.
    """
    peer_id = jobs[0].peer_id
    with open_session(jobs[0].source) as session, ExitStack() as held:
        groups = take_groups(session, jobs, held)
        if not groups:
            return Left((), jobs)
        peer = loadable_peer(session, peer_id)
        if peer is None:
            return Left((), jobs)
        try:
            lead = held.enter_context(peer_load(session, peer, groups, say))
        except NotForFiles as why:
            _tell_why(session, groups, why, say)
            return Left((), jobs)
        done = list[GroupSummary]()
        for part, partners in parts_of(lead, also, held, say):
            try:
                done += _Loading(part, partners, jobs[0].deadline, say, tell).run(on)
            except NotForFiles as why:
                _tell_why(session, part.groups, why, say)
    finished = {summary.group for summary in done}
    return Left(done, [job for job in jobs if job.group not in finished])


def _tell_why(session: Session, groups: Sequence[TakenGroup], why: NotForFiles, say: Tell) -> None:
    say(f"nothing is loaded as files: {why}")
    if why.tell:
        for group in groups:
            group.note_why(session, str(why))


@dataclass(frozen=True)
class _Begun:
    """A peer's part in a load whose record is noted."""

    peer: PeerLoad
    job: LoadJob


@dataclass(frozen=True)
class _Loading:
    """A load of groups whose leases are held: of the `lead`, and of its partners, which have queued the same WALs."""

    lead: PeerLoad
    partners: Sequence[PeerLoad]
    deadline: float
    say: Tell
    tell: Tell

    def run(self, on: Backend) -> list[GroupSummary]:
        """Load the groups. Returns the summaries of the lead's groups that are done. Raises NotForFiles."""
        began = time.monotonic()
        self._await_quiet()
        parts = [_Begun(self.lead, self.lead.begin())]
        try:
            parts += self._begin_partners()
            loaded = self._load(parts, on)
        except BaseException:
            for part in parts:
                part.peer.give_up(part.job)
            raise
        return self._note(loaded, time.monotonic() - began)

    def _note(self, loaded: Sequence[tuple[_Begun, Verdict]], seconds: float) -> list[GroupSummary]:
        """Note what is loaded for each peer. Returns the summaries of the lead's groups that are done. Raises NotForFiles."""
        (lead, verdict), *others = loaded
        self.say(verdict.loaded)
        if verdict.not_loaded:
            self.say(verdict.not_loaded)
        problem: NotForFiles | WalferryError | None = None
        done: list[GroupSummary] = []
        try:
            done = lead.peer.note(lead.job, verdict, seconds)
        except (NotForFiles, WalferryError) as error:
            problem = error
        for part, of_partner in others:
            self._note_partner(part, of_partner, seconds)
        if problem is not None:
            raise problem
        return done

    def _await_quiet(self) -> None:
        """Wait until no request of an earlier run that shipped one of the groups can take effect any more.

        Raises NotForFiles if that takes longer than this run has. The driver waits because the tasks' own clocks may be behind.
        Partners need no longer wait than the lead does.
        """
        seconds = self.lead.quiet_seconds
        if not seconds:
            return
        why = "requests of an earlier run that was cut short may still take effect"
        if time.time() + seconds > self.deadline:
            raise NotForFiles(f"for {seconds:.0f} s {why}, and this run's deadline comes before that", tell=False)
        self.say(f"waiting for {seconds:.0f} s: {why}")
        time.sleep(seconds)

    def _begin_partners(self) -> list[_Begun]:
        """Note the partners' records. A partner whose cluster takes no files is left to its own run."""
        begun = []
        for partner in self.partners:
            try:
                job = partner.begin(trial_seconds=0.0, deadline=time.time() + PARTNERS_PART * (self.deadline - time.time()))
                begun.append(_Begun(partner, replace(job, patience=PARTNERS_PATIENCE_SECONDS, wals=())))
            except (NotForFiles, WalferryError) as why:
                self.say(left_to_itself(partner.peer.id, str(why)))
        return begun

    def _load(self, parts: Sequence[_Begun], on: Backend) -> list[tuple[_Begun, Verdict]]:
        """Read the WALs, and load their edits. Returns the parts that were loaded, the lead's first."""
        lead, *others = parts
        job = replace(lead.job, also=tuple(part.job for part in others))
        self.say(
            f"{len(job.wals):,} WALs with {self.lead.bytes_left:,} bytes are loaded as files; the peer cluster has "
            f"{len(job.regions):,} regions of {len(job.targets.tables):,} tables that are fit for it"
        )
        surveys = survey_all(on, self.tell, for_survey(job))
        found = list(zip(job.wals, surveys, strict=True))
        wanted = wanted_of(found)
        fit = [number for number, planned in enumerate(job.regions) if wanted.table(planned.table)]
        kept = [(wal, survey) for wal, survey in found if wal.number not in wanted.not_wals]
        shares = shares_of(kept, fit, on)
        _check_complete([survey for _, survey in kept], wanted, shares)
        alike = [lead, *self._alike(others, job, surveys)]
        self.say(
            f"{sum(len(share.regions) for share in shares):,} regions get edits, in {len(shares):,} parts, which read "
            f"{sum(len(share.wals) for share in shares):,} WALs"
        )
        tables = {table for survey in surveys for table in survey.report.tables}
        outcomes = load_all(on, self.tell, replace(job, also=tuple(for_load(part.job, tables) for part in alike[1:])), shares)
        return [
            (part, verdict_of([o.of_peer(i) for o in outcomes], wanted, surveys, job.targets, [g.wals for g in part.peer.groups]))
            for i, part in enumerate(alike)
        ]

    def _alike(self, others: Sequence[_Begun], job: LoadJob, surveys: Sequence[WalSurvey]) -> Iterator[_Begun]:
        """Yield the partners that get the same edits into the same tables, and end the loads of the others."""
        for number, part in enumerate(others):
            if why := why_not_shared(job, number, surveys):
                self.say(left_to_itself(part.peer.peer.id, why))
                part.peer.give_up(part.job)
            else:
                yield part

    def _note_partner(self, part: _Begun, verdict: Verdict, seconds: float) -> None:
        """Note what is loaded for a partner. If that fails, its own run ends this load, and ships its queues."""
        peer_id = part.peer.peer.id
        try:
            part.peer.note(part.job, verdict, seconds)
        except (NotForFiles, WalferryError) as why:
            self.say(left_to_itself(peer_id, str(why)))
            return
        for line in filter(None, (verdict.loaded, verdict.not_loaded)):
            self.say(f"peer {peer_id}: {line}")


def _check_complete(surveys: Sequence[WalSurvey], wanted: Wanted, shares: Sequence[Share]) -> None:
    """Check that the shares have as many cells as the filters kept of the WALs that are loaded. Raises EditsDiffer."""
    kept = sum(
        cells
        for survey in surveys
        for table, (_, cells, *_) in survey.report.tables.items() if table not in wanted.unfit
    )  # fmt: skip
    dealt = sum(cells for share in shares for _, cells in share.regions)
    if kept != dealt:
        raise EditsDiffer(
            f"the WALs have {kept:,} cells for files, and {dealt:,} were found in their regions",
            "Nothing leaves the queues. Ship by sink=direct, and report this message",
        )
