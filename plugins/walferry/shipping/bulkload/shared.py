"""Several peers whose files are made together: which of them join a load, and which leave it again.

A peer joins if it has queued the same WALs, read up to the same positions, so that the same edits are left to be loaded. Whether
the filters keep the same edits for it shows while the WALs are read: an edit that came from one of the peer clusters does not go
back there. A peer that cannot join, or leaves, is shipped by its own run as always. Its region borders, and how its files are
written, may differ: only what is alike is written once (loading.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from walferry.base.errors import WalferryError
from walferry.base.jobs import Tell
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.peer_load import NotForFiles, PeerLoad, loadable_peer, peer_load, take_groups
from walferry.shipping.bulkload.survey import WalSurvey
from walferry.shipping.group_job import GroupJob, left_to_itself


def partners_of(lead: PeerLoad, also: Sequence[Sequence[GroupJob]], held: ExitStack, say: Tell) -> list[PeerLoad]:
    """Return the parts of the peers that join the lead's load, under their leases, which `held` gives up.

    `also` has the jobs of each peer that might join. `say` gets the reasons why one does not.
    """
    found = []
    for jobs in also:
        try:
            with ExitStack() as own:
                found.append(_joined(lead, jobs, own, say))
                held.enter_context(own.pop_all())
        except (NotForFiles, WalferryError) as why:
            say(left_to_itself(jobs[0].peer_id, str(why)))
    return found


def _joined(lead: PeerLoad, jobs: Sequence[GroupJob], leases: ExitStack, say: Tell) -> PeerLoad:
    """Return a peer's part, for the same groups as the lead's. Raises NotForFiles, WalferryError."""
    session, of_group = lead.session, {job.group: job for job in jobs}
    names = [group.job.group for group in lead.groups]
    if lacking := [name for name in names if name not in of_group]:
        raise NotForFiles(f"nothing of WAL group {lacking[0]} is queued for it")
    groups = take_groups(session, [of_group[name] for name in names], leases, wait=False)
    if len(groups) < len(names):
        raise NotForFiles("another run ships some of its WAL groups")
    peer = loadable_peer(session, jobs[0].peer_id)
    if peer is None:
        raise NotForFiles("it is paused, serial, or its initial snapshot is under way")
    part = leases.enter_context(peer_load(session, peer, groups, say))
    if part.wals != lead.wals:
        raise NotForFiles("it has other WALs queued, or has read them up to other positions")
    if part.quiet_seconds > lead.quiet_seconds:
        raise NotForFiles("requests of an earlier run of this peer may still take effect")
    return part


def why_not_shared(job: LoadJob, number: int, surveys: Sequence[WalSurvey]) -> str:
    """Return why the peer with this number in `job.also` cannot get the files of these WALs; empty if it can."""
    other = job.also[number]
    for wal, survey in zip(job.wals, surveys, strict=True):
        if number in survey.differs:
            return f"of {wal.name} it gets other edits, or the WAL has bulk loads"
        for table in survey.report.tables:
            families = job.targets.tables[table.encode()].families
            if (target := other.targets.tables.get(table.encode())) is None:
                return f"its cluster has no table {table} into which files may be loaded"
            if lacking := families.keys() - target.families.keys():
                return f"table {table} of its cluster has no family {min(lacking).decode(errors='backslashreplace')}"
    return ""
