"""Keeps the summaries of runs in ZooKeeper, under Walferry's own root.

While a Spark task ships a WAL group, it keeps its summary in a znode. So users can watch the progress, and the summary comes back
whatever the Spark master and the deploy mode:

    <root>/runs/<quoted znode parent>/<peer>/<quoted run id>                    until when it is kept, in s since the epoch
    <root>/runs/<quoted znode parent>/<peer>/<quoted run id>/<quoted group>     GroupSummary as JSON
    <root>/runs/<quoted znode parent>/<peer>/<quoted run id>/(queues)/…         of a recovery: shipping/drains.py

A retry of a run goes on counting from the last summary of the killed attempt.

While a peer's recovered queues are drained, hundreds of its batches may begin and end. So each run says how long it has to be
kept. Of the runs whose time is over, the newest are kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import unquote

from kazoo.exceptions import NodeExistsError

from walferry.base.records import NotARecord
from walferry.base.texts import one_line
from walferry.base.zk.client import ZNode, delete_unused, read, read_children, retried
from walferry.base.zk.errors import Contention
from walferry.base.zk.records import decode, decode_or_none, encode, put, update, wrong_record
from walferry.engine.summary import MAX_ERROR_CHARS, GroupSummary, Status
from walferry.hbase.layout import quoted
from walferry.replication.source.session import Session

RUNS_KEPT = 20  # the newest runs of one peer
RUNS_AT_MOST = 200  # of one peer, including runs that have to be kept longer
MAX_TIME_DIGITS = 18
QUEUES = "(queues)"  # next to the groups, whose quoted names contain no parentheses

log = logging.getLogger(__name__)


def begin_run(session: Session, peer_id: str, run_id: str, keep_seconds: float) -> int:
    """Make the run's znode, to be kept for at least `keep_seconds`, and delete the peer's runs that need not be kept any more.

    Returns the znode's version. If it changes later, another try of the run has begun. Raises ConnectError.
    """
    version = put(session.zk, run_path(session, peer_id, run_id), str(int(time.time() + keep_seconds)).encode())
    folder = session.own.runs(peer_id)
    for name in _superfluous(read_children(session.zk, folder)):
        _delete(session, f"{folder}/{name}")
    return version


def end_run(session: Session, peer_id: str, run_id: str) -> None:
    """Delete a run that is no longer needed. Raises ConnectError."""
    _delete(session, run_path(session, peer_id, run_id))


def delete_old_runs(session: Session, peer_id: str, at_most: int) -> int:
    """Delete the runs of a deleted peer once their time is over, and its folder with the last run. Returns the number of runs."""
    folder = session.own.runs(peer_id)
    runs = read_children(session.zk, folder)
    old = [name for name, znode in runs.items() if _kept_until(znode) <= time.time()][:at_most]
    for name in old:
        _delete(session, f"{folder}/{name}")
    if len(old) == len(runs):
        _delete(session, folder, with_children=False)
    return len(old)


def _delete(session: Session, path: str, *, with_children: bool = True) -> None:
    """Delete a run, or a folder that has become empty."""
    if not delete_unused(session.zk, path, recursive=with_children):  # perhaps a task still writes to it: the next run deletes it
        log.info("%s changes while it is being deleted", path)


def _superfluous(runs: Mapping[str, ZNode]) -> list[str]:
    """Return the runs to delete: all but the newest, and but the ones that have to be kept longest."""
    by_age = sorted(runs, key=lambda name: runs[name].stat.czxid, reverse=True)
    others = sorted(by_age[RUNS_KEPT:], key=lambda name: _kept_until(runs[name]), reverse=True)
    places = RUNS_AT_MOST - RUNS_KEPT
    return [name for place, name in enumerate(others) if place >= places or _kept_until(runs[name]) <= time.time()]


def _kept_until(run: ZNode) -> int:
    return int(run.value) if run.value.isdigit() and len(run.value) <= MAX_TIME_DIGITS else 0


def write_group(session: Session, peer_id: str, run_id: str, summary: GroupSummary) -> None:
    """Write a group's summary, replacing the earlier one. Raises ConnectError."""
    put(session.zk, group_path(session, peer_id, run_id, summary.group), encode(summary))


def begin_group(session: Session, peer_id: str, run_id: str, summary: GroupSummary) -> None:
    """Write a group's first summary, unless the group already has one. Raises ConnectError."""
    with suppress(NodeExistsError):
        path = group_path(session, peer_id, run_id, summary.group)
        retried(session.zk, session.zk.create, path, encode(summary), makepath=True)


def change_group(
    session: Session, peer_id: str, run_id: str, group: str, change: Callable[[GroupSummary | None], GroupSummary]
) -> None:
    """Change a group's summary by `change` (None: no readable one), unless a task writes it meanwhile. Raises ConnectError."""
    path = group_path(session, peer_id, run_id, group)

    def changed(value: bytes | None) -> bytes:
        return encode(change(None if value is None else decode_or_none(GroupSummary, value)))

    with suppress(Contention):
        update(session.zk, path, changed, tries=1)


def read_group(session: Session, peer_id: str, run_id: str, group: str) -> GroupSummary | None:
    """Return the group's last summary in this run; None if there is none, or it cannot be read. Raises ConnectError."""
    path = group_path(session, peer_id, run_id, group)
    znode = read(session.zk, path)
    try:
        return decode(GroupSummary, znode.value) if znode else None
    except NotARecord as error:
        log.warning("%s", wrong_record(path, "a summary", error, "Counting begins anew"))
        return None


def read_run(session: Session, peer_id: str, run_id: str) -> list[GroupSummary]:
    """Return the summaries of all groups of a run, sorted by group; empty if the run shipped nothing or is no longer kept.

    A group whose summary cannot be read counts as failed, because its outcome is unknown.
    """
    path = run_path(session, peer_id, run_id)
    found = read_children(session.zk, path)
    return [_summary(f"{path}/{name}", name, znode) for name, znode in found.items() if name != QUEUES]


def _summary(path: str, name: str, znode: ZNode) -> GroupSummary:
    try:
        return decode(GroupSummary, znode.value)
    except NotARecord as error:
        why = wrong_record(path, "a summary", error, "See what has written it, delete it, and run again")
        return GroupSummary(group=one_line(unquote(name), MAX_ERROR_CHARS), status=Status.FAILED, error=str(why))


def group_path(session: Session, peer_id: str, run_id: str, group: str) -> str:
    """Return the znode of a group's summary."""
    return f"{run_path(session, peer_id, run_id)}/{quoted(group)}"


def run_path(session: Session, peer_id: str, run_id: str) -> str:
    """Return the znode of a run."""
    return f"{session.own.runs(peer_id)}/{quoted(run_id)}"
