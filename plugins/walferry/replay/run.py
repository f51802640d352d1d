"""Runs a replay: finds the WALs, scans them side by side, and ships them group by group, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import astuple, replace
from functools import partial
from uuid import uuid4

from walferry.base.errors import WalferryError
from walferry.base.jobs import Backend, check_answers
from walferry.base.texts import visible
from walferry.engine.summary import MAX_NAME_CHARS, GroupSummary, Status, digest_with
from walferry.hbase.cluster import cluster_id, live_servers
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.listing import WalFile
from walferry.hbase.files.store import WalStore
from walferry.hbase.wal.errors import WalError, WalKeyError
from walferry.load.copy_records import check_copied, copied_before
from walferry.load.earlier_loads import LoadedBefore
from walferry.replay.files import FoundWals, GroupFiles, around, found_of
from walferry.replay.holes import IntervalGone
from walferry.replay.interval import Interval, moment
from walferry.replay.job import ReplayJob, check_tables, narrowed, peer_cluster_id_of
from walferry.replay.listing import all_wals
from walferry.replay.order import Stages, digest_of_names, stages_of
from walferry.replay.scan import Scanned, Stay, TableCount, scan_wal
from walferry.replay.shipment import QUEUE_ID, ship_group
from walferry.replay.store import StoreWithArchive, begins_with_opening
from walferry.replication.filters.rules import FilterRules
from walferry.replication.sinks.of_peer import shipping_settings
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.group_job import senders_of_each
from walferry.shipping.peer_down import forget_down
from walferry.shipping.runs import begin_run, change_group

MAX_NAMED = 20  # holes in an error
MAX_TABLES = 500  # of a group, in its summary
OTHER_TABLES = "(other tables)"


def find_left(session: Session, interval: Interval) -> FoundWals:
    """Find the WALs that are left of an interval, and the holes in it. Raises WalferryError."""
    keys = session.source.keys()
    store = StoreWithArchive(session.source, look_only=True)

    def begins(wal: WalFile) -> bool | None:
        try:
            return begins_with_opening(store, wal, keys)
        except WalKeyError:  # the WAL may be sound: the operator has to correct the keys
            raise
        except (WalError, FileNotFoundError):  # then the WAL does not prove that it was the first
            return False

    live = live_servers(session.zk, session.nodes)  # first: a server that starts now has no WALs of a past interval
    return found_of(around(all_wals(session), interval), interval, live, begins)


def problems_of(found: FoundWals) -> list[str]:
    """Return the problems that keep a run from shipping the whole interval: one text per hole, and per WAL that is still open."""
    unclosed = (
        f"WAL {wal.name}, begun at {moment(wal.name.timestamp)}, is still open: its entries cannot be read yet; run again "
        "with roll, or wait until HBase has closed it"
        for wal in found.open
    )
    return [*map(str, found.holes), *unclosed]


def check_whole(found: FoundWals, interval: Interval) -> None:
    """Raise IntervalGone if a part of the interval is gone or cannot be read."""
    if problems := problems_of(found):
        more = f"; and {len(problems) - MAX_NAMED} more" if len(problems) > MAX_NAMED else ""
        raise IntervalGone(
            f"the interval {interval} is not whole: {'; '.join(problems[:MAX_NAMED])}{more}",
            "Set what_is_there to ship the rest of it. Nothing was shipped",
        )


def replay(job: ReplayJob, on: Backend, *, dry_run: bool, keep_seconds: float) -> list[GroupSummary]:
    """Ship an interval again, or only count its edits. A group's error goes into its summary. Raises WalferryError."""
    with open_session(job.source) as session:
        peer = check_peer(session, job.peer_id)
        check_copied(session, peer.id)
        copied = copied_before(session, peer.id)
        check_tables(peer, job.tables)
        found = find_left(session, job.interval)
        if not job.what_is_there and not dry_run:
            check_whole(found, job.interval)
        settings = shipping_settings(peer, job.source, look=not dry_run)
        begun = begin_run(session, job.peer_id, job.run_id, keep_seconds)
        job = replace(job, settings=settings, senders=senders_of_each(max(1, len(found.groups)), settings.senders), begun=begun)
        forget_down(session, job.peer_id, job.run_id)
        peer_cluster = peer_cluster_id_of(session, peer, job)
        rules = narrowed(FilterRules.of_peer(peer, cluster_id(session.zk, session.nodes), peer_cluster), job.tables)
    scanned = _scan(partial(_scan_one, job, rules, copied), found.groups, on)
    summaries = [_begun(group, scans) for group, scans in zip(found.groups, scanned, strict=True)]
    if dry_run or any(summary.failed for summary in summaries):
        _keep(job, summaries)
        return summaries
    return _ship(job, found.groups, summaries, scanned, on)


def _scan(scan: Callable[[tuple[WalFile, bool]], Scanned], groups: Sequence[GroupFiles], on: Backend) -> list[list[Scanned]]:
    """Return what each WAL of each group contains of the interval, or why the WAL cannot be read."""
    wals = [(wal, wal.name.text == group.torn) for group in groups for wal in group.wals]
    results = iter(on.run(scan, wals, Scanned))
    return [[next(results) for _ in group.wals] for group in groups]


def _scan_one(job: ReplayJob, rules: FilterRules, copied: LoadedBefore, wal: tuple[WalFile, bool]) -> Scanned:
    store: WalStore = job.store
    left = copied.rest(wal[0].name.text, rules)
    try:
        return scan_wal(store, wal[0], job.interval, left, job.keys, ends_torn=wal[1])
    except (WalferryError, StoreError, OSError) as error:
        return Scanned(error=str(error) or type(error).__name__)


def _begun(group: GroupFiles, scans: Sequence[Scanned]) -> GroupSummary:
    """Return the summary of a group that was scanned: the edits to ship, or why they cannot be read."""
    tables: dict[str, TableCount] = {}
    for scan in scans:
        for table, count in scan.tables.items():
            tables[table] = tables.get(table, TableCount()) + count
    errors = [scan.error for scan in scans if scan.error]
    return GroupSummary(
        group=group.group,
        server=str(group.server or ""),
        queue_id=QUEUE_ID,
        status=Status.FAILED if errors else Status.DONE,
        error=errors[0] if errors else None,
        tables={table: list(astuple(count)) for table, count in _largest(tables).items()},
        editsBeforeCopy=sum(scan.before_copy for scan in scans),
    )


def _largest(tables: dict[str, TableCount]) -> dict[str, TableCount]:
    """Return the tables with the most edits, and all others as one. Names are cut, and names cut alike are one table."""
    shown: dict[str, TableCount] = {}
    for name, count in tables.items():
        name = visible(name, MAX_NAME_CHARS)
        shown[name] = shown.get(name, TableCount()) + count
    by_size = sorted(shown.items(), key=lambda item: -item[1].edits)
    others = sum((count for _, count in by_size[MAX_TABLES:]), TableCount())
    return dict(by_size[:MAX_TABLES]) | ({OTHER_TABLES: others} if others.edits else {})


def _ship(
    job: ReplayJob, groups: Sequence[GroupFiles], begun: Sequence[GroupSummary], scanned: Sequence[Sequence[Scanned]],
    on: Backend,
) -> list[GroupSummary]:  # fmt: skip
    """Ship all groups, stage by stage. If a group fails in a stage, no further stage follows.

    A stage that an earlier try has shipped is shipped again only after edits of the stage before: it must follow them.
    """
    stays = [(group.group, stay) for group, scans in zip(groups, scanned, strict=True) for stay in _stays(scans)]
    of_group, regions = stages_of(stays), {stay.region for _, stay in stays}
    staged = [of_group.get(group.group, Stages()) for group in groups]
    several = [_with_edits(group, scans, its.regions) for group, its, scans in zip(groups, staged, scanned, strict=True)]
    moving = digest_of_names(wal.name.text for group in several for wal in group.wals)
    digests = [stages.digest(moving) for stages in staged]
    last = max((stage for stages in of_group.values() for stage in stages.needed), default=0)
    summaries: list[GroupSummary] = []
    this_try, follows = uuid4().hex, ""
    for stage in range(last + 1):
        tasks = []
        rows = zip(groups, staged, several, begun, digests, scanned, strict=True)
        for group, stages, with_several, summary, digest, scans in rows:
            summary = replace(summary, stages=digest + follows, shippedBy=this_try)
            if stage == 0:
                tasks.append((_with_edits(group, scans, regions), stages, stage, summary))
            elif stage in stages.needed:
                name = f"{group.group}, stage {stage}"
                tasks.append((with_several, stages, stage, replace(summary, group=name, tables={}, editsBeforeCopy=0)))
        done = on.run(partial(_ship_one, job), tasks, GroupSummary)
        check_answers("WAL group", (summary.group for *_, summary in tasks), (summary.group for summary in done))
        summaries += done
        if any(summary.status is not Status.DONE for summary in done):
            break
        follows = f" {digest_with('', repr([(summary.group, summary.shippedBy) for summary in done]))}"
    _keep(job, [summary for summary in summaries if summary.passing])
    return summaries


def _ship_one(job: ReplayJob, task: tuple[GroupFiles, Stages, int, GroupSummary]) -> GroupSummary:
    return ship_group(job, *task)


def _with_edits(group: GroupFiles, scans: Sequence[Scanned], of: Container[bytes]) -> GroupFiles:
    """Return the group with only the WALs that contain edits of one of these regions."""
    wals = zip(group.wals, scans, strict=True)
    return replace(group, wals=tuple(wal for wal, scan in wals if any(stay.region in of for stay in _stays([scan]))))


def _stays(scans: Iterable[Scanned]) -> Iterable[Stay]:
    return (Stay(*stay) for scan in scans for stay in scan.stays)


def _keep(job: ReplayJob, summaries: Sequence[GroupSummary]) -> None:
    """Write the summaries that no task has written. A group's finished WALs stay noted."""

    def with_what_is_done(now: GroupSummary, before: GroupSummary | None) -> GroupSummary:
        if before is None:
            return now
        return replace(before, status=now.status, error=now.error, passing=now.passing, tables=now.tables)

    if summaries:
        with open_session(job.source) as session:
            for summary in summaries:
                change_group(session, job.peer_id, job.run_id, summary.group, partial(with_what_is_done, summary))
