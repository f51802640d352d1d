"""Several peers whose files are made together: which of them join a load, and which leave it again.

A peer joins for the WAL groups of which it has queued the same WALs, read up to the same positions, so that the same edits are
left to be loaded. The lead loads its other groups afterwards, alone. Whether the filters keep the same edits for it shows while
the WALs are read: an edit that came from one of the peer clusters does not go back there. A peer that cannot join, or leaves, is
shipped by its own run as always. Its region borders, and how its files are written, may differ: only what is alike is written
once (loading.py). The lead waits for nothing that only another peer needs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace

from walferry.base.errors import WalferryError
from walferry.base.jobs import Tell
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.peer_load import NotForFiles, PeerLoad, TakenGroup, loadable_peer, peer_load, take_groups
from walferry.shipping.bulkload.survey import WalSurvey, shown
from walferry.shipping.bulkload.targets import NO_TABLES, Targets
from walferry.shipping.group_job import GroupJob, left_to_itself

MOST_INTO_A_REGION = 4  # files of a family: each load flushes the region, and HBase compacts many files (hfiles.md)
LEAST_SHARED = 0.5  # of the bytes; with less, two loads of the lead would cost more than the peer's own one


def parts_of(
    lead: PeerLoad, also: Sequence[Sequence[GroupJob]], held: ExitStack, say: Tell
) -> list[tuple[PeerLoad, list[PeerLoad]]]:
    """Divide the lead's load: the groups that are loaded with other peers, with the parts of these peers, and the other groups.

    `also` has the jobs of each peer that might join; `held` gives up their leases. `say` gets the reasons why one does not join.
    """
    if not also:
        return [(lead, [])]
    shared, joined = {group.job.group for group in lead.groups}, list[PeerLoad]()
    for jobs in also:
        try:
            with ExitStack() as own:
                part = _joined(lead, jobs, own, say)
                shared = _worth_sharing(lead, shared, part)
                held.enter_context(own.pop_all())
                joined.append(part)
        except (NotForFiles, WalferryError) as why:
            say(left_to_itself(jobs[0].peer_id, str(why)))
    if not joined:
        return [(lead, [])]
    rest = {group.job.group for group in lead.groups} - shared
    others = ", ".join(f"peer {part.peer.id}" for part in joined)
    say(f"{len(shared):,} WAL groups are loaded with {others}, {len(rest):,} without")
    parts = [(lead.only(shared), [part.only(shared) for part in joined])]
    return [*parts, (lead.only(rest), [])] if rest else parts


def _worth_sharing(lead: PeerLoad, shared: set[str], part: PeerLoad) -> set[str]:
    """Return the groups that are still shared if a peer joins. Raises NotForFiles if the others would share too little then."""
    left = shared & {group.job.group for group in part.groups}
    sizes = {group.job.group: sum(wal.bytes_left for wal in group.wals) for group in lead.groups}
    before, after = (sum(sizes[name] for name in names) for names in (shared, left))
    if not left or after < LEAST_SHARED * before:
        raise NotForFiles(
            f"only {after:,} of {before:,} bytes are in WALs that it has queued, too, read up to the same positions"
        )
    return left


def _joined(lead: PeerLoad, jobs: Sequence[GroupJob], leases: ExitStack, say: Tell) -> PeerLoad:
    """Return a peer's part, for the groups that have the same WALs as the lead's. Raises NotForFiles, WalferryError."""
    session, of_group = lead.session, {job.group: job for job in jobs}
    names = [group.job.group for group in lead.groups]
    groups = take_groups(session, [of_group[name] for name in names if name in of_group], leases, wait=False)
    if not groups:
        raise NotForFiles("none of these WAL groups is queued for it, or another run ships them")
    peer = loadable_peer(session, jobs[0].peer_id)
    if peer is None:
        raise NotForFiles("it is paused, serial, or its initial snapshot is under way")
    part = leases.enter_context(peer_load(session, peer, groups, say, cleans=False))
    theirs = {group.job.group: group for group in part.groups}
    alike = [same for group in lead.groups if (same := _alike(group, theirs.get(group.job.group))) is not None]
    return replace(part, groups=alike)


def _alike(lead: TakenGroup, other: TakenGroup | None) -> TakenGroup | None:
    """Return another peer's group with the lead's WALs; None if it has others, or requests for it may still take effect.

    It may have newer WALs, as they were listed later: its own run ships them.
    """
    if other is None or len(other.wals) < len(lead.wals) or other.lease.right.quiet_seconds > lead.lease.right.quiet_seconds:
        return None
    if not all(wal.is_same(theirs) for wal, theirs in zip(lead.wals, other.wals, strict=False)):
        return None
    return replace(other, wals=lead.wals, found=replace(other.found, wals=other.found.wals[: len(lead.wals)]))


def why_not_shared(job: LoadJob, number: int, surveys: Sequence[WalSurvey]) -> str:
    """Return why the peer with this number in `job.also` cannot get the files of these WALs; empty if it can."""
    theirs = job.also[number].targets
    for wal, survey in zip(job.wals, surveys, strict=True):
        if number in survey.differs:
            return f"of {wal.name} it gets other edits, or the WAL has bulk loads"
        if survey.report.others and (more := sorted(theirs.tables.keys() - job.targets.tables.keys())):
            return f"{wal.name} has edits that go by requests here, and its cluster could load table {shown(more[0])}"
        for table in survey.report.tables:
            families = job.targets.tables[table.encode()].families
            if (target := theirs.tables.get(table.encode())) is None:
                return f"its cluster has no table {table} into which files may be loaded"
            if lacking := families.keys() - target.families.keys():
                return f"table {table} of its cluster has no family {shown(min(lacking))}"
    return _crowded(job, theirs, {region for survey in surveys for region, _, _ in survey.regions})


def _crowded(job: LoadJob, theirs: Targets, regions: Collection[int]) -> str:
    """Return which region of the other cluster would get the files of too many regions; empty if there is none."""
    starts = {table: [region.start for region in target.regions] for table, target in theirs.tables.items()}
    into = Counter[tuple[bytes, int]]()
    for number in regions:
        planned = job.regions[number]
        into[planned.table, bisect_right(starts[planned.table], planned.region.start) - 1] += 1
    for (table, number), count in into.most_common(1):
        if count > MOST_INTO_A_REGION:
            name = theirs.tables[table].regions[number].encoded_name
            return f"region {name} of table {shown(table)} of its cluster would get the files of {count:,} regions"
    return ""


def for_survey(job: LoadJob) -> LoadJob:
    """Return a job without the other peers' tables: a survey only filters for them."""
    return replace(job, also=tuple(replace(each, targets=NO_TABLES) for each in job.also))


def for_load(job: LoadJob, tables: Collection[str]) -> LoadJob:
    """Return a job of another peer with nothing but the settings of the tables that get edits: a task looks up the regions."""
    wanted = {name: replace(job.targets.tables[name], regions=()) for name in map(str.encode, tables)}
    return replace(job, targets=Targets(wanted, {}, ()))
