"""Reads the runs' notes in ZooKeeper on each WAL group: the last run's result, the last success, and since when it fails.

    <root>/runs/<quoted znode parent>/<peer>                           notes of a peer cluster that is down
                                                                       (shipping/peer_down.py)
    <root>/runs/<quoted znode parent>/<peer>/<run>/<quoted group>      GroupSummary as JSON (shipping/runs.py)

Only the newest runs of each peer are read, and of each group only the summaries back to its last success. A znode without a
valid summary becomes a problem that names the znode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from urllib.parse import unquote

from walferry.base.records import NotARecord
from walferry.base.texts import one_line
from walferry.base.zk.client import ZNode, children_all, read_all
from walferry.base.zk.records import decode, wrong_record
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.source.session import Session
from walferry.shipping.peer_down import notes_in

RUNS_READ = 5  # the newest runs of one peer
MAX_SUMMARY_BYTES = 128 << 10
MAX_SUMMARY_CHARS = 1000  # of each text in it
_LATEST = 1 << 40  # in seconds since the epoch
_FAILED = (Status.FAILED, Status.PEER_DOWN)  # the run could not ship the group, though it had the lease

Group = tuple[str, str]  # peer id and WAL group
NotedRun = dict[str, str]  # the znodes of a run's summaries, by group


@dataclass(frozen=True)
class RunNote:
    """The last note of one run on a group, and when it was written, by ZooKeeper's clock in ms since the epoch."""

    run_id: str
    at_ms: int
    summary: GroupSummary


@dataclass(frozen=True)
class GroupNotes:
    """The notes on a group, the newest first, back to the last success as far as they were read."""

    notes: tuple[RunNote, ...]

    @property
    def last(self) -> RunNote:
        """The newest note."""
        return self.notes[0]

    @property
    def last_success_ms(self) -> int | None:
        """When a run last noted that it shipped all that it found; None if no run that was read has."""
        return next((note.at_ms for note in self.notes if note.summary.status is Status.DONE), None)

    @property
    def failing(self) -> Sequence[RunNote]:
        """The failures since the last success, the newest first. Runs that left the group to another run do not count."""
        ended = [note for note in self.notes if note.summary.status not in (Status.RUNNING, Status.HELD)]
        count = next((i for i, note in enumerate(ended) if note.summary.status not in _FAILED), len(ended))
        return ended[:count]


@dataclass(frozen=True)
class PeerDown:
    """A run has found the peer cluster down."""

    at_ms: int
    error: str


@dataclass(frozen=True)
class Notes:
    """The notes on all groups that were asked for, and problems with other znodes."""

    groups: Mapping[Group, GroupNotes] = field(default_factory=dict)
    peer_down: Mapping[str, PeerDown] = field(default_factory=dict)  # by peer: the newest note
    problems: tuple[str, ...] = ()


def read_notes(session: Session, groups: Collection[Group]) -> Notes:
    """Read the notes on these groups. Raises ConnectError."""
    peers = sorted({peer_id for peer_id, _ in groups})
    heads = read_all(session.zk, [session.own.runs(peer_id) for peer_id in peers])
    runs = newest_runs(session, peers)
    problems: list[str] = []
    pending = {(peer_id, group): [run[group] for run in runs.get(peer_id, ()) if group in run] for peer_id, group in groups}
    found: dict[Group, list[RunNote]] = {}
    while pending := {group: places for group, places in pending.items() if places}:
        next_places = [places.pop(0) for places in pending.values()]
        for group, path, znode in zip(list(pending), next_places, read_all(session.zk, next_places), strict=True):
            note = None if znode is None else _note(group[1], path, znode, problems)
            if note is not None:
                found.setdefault(group, []).append(note)
                if note.summary.status is Status.DONE:
                    del pending[group]
    down = {peer_id: _peer_down(head) for peer_id, head in zip(peers, heads, strict=True)}
    return Notes(
        {group: GroupNotes(tuple(notes)) for group, notes in found.items()},
        {peer_id: note for peer_id, note in down.items() if note is not None},
        tuple(problems),
    )


def newest_runs(session: Session, peers: Sequence[str]) -> dict[str, list[NotedRun]]:
    """Return the newest runs of each peer, the newest first. Raises ConnectError."""
    listed = children_all(session.zk, [session.own.runs(peer_id) for peer_id in peers])
    paths = [
        (peer_id, f"{session.own.runs(peer_id)}/{name}")
        for peer_id, names in zip(peers, listed, strict=True)
        for name in names or ()
    ]
    stats = read_all(session.zk, [path for _, path in paths])
    by_peer: dict[str, list[tuple[int, str]]] = {}
    for (peer_id, path), znode in zip(paths, stats, strict=True):
        if znode is not None:
            by_peer.setdefault(peer_id, []).append((znode.stat.czxid, path))
    newest = [(peer_id, path) for peer_id, runs in by_peer.items() for _, path in sorted(runs, reverse=True)[:RUNS_READ]]
    found: dict[str, list[NotedRun]] = {}
    for (peer_id, path), names in zip(newest, children_all(session.zk, [path for _, path in newest]), strict=True):
        found.setdefault(peer_id, []).append({unquote(name): f"{path}/{name}" for name in names or ()})
    return found


def _note(group: str, path: str, znode: ZNode, problems: list[str]) -> RunNote | None:
    try:
        summary = checked_summary(znode.value)
        if summary.group != group:
            raise NotARecord(f"it tells of another group, {summary.group}")
    except NotARecord as error:
        wrong = wrong_record(path, "a summary", error, "See what has written it, and delete it")
        problems.append(one_line(str(wrong), MAX_SUMMARY_CHARS))
        return None
    return RunNote(unquote(path.split("/")[-2]), int(znode.stat.mtime), summary)


def checked_summary(value: bytes) -> GroupSummary:
    """Return the summary in a znode, with bounded texts and numbers. Raises NotARecord."""
    summary = decode(GroupSummary, value, MAX_SUMMARY_BYTES)
    texts = {name: text for each in fields(summary) if isinstance(text := getattr(summary, name := each.name), str)}
    cut = {name: one_line(text, MAX_SUMMARY_CHARS) for name, text in texts.items() if name not in ("group", "status")}
    return replace(summary, **cut)  # type: ignore[arg-type]  # texts stay texts


def _peer_down(head: ZNode | None) -> PeerDown | None:
    notes = [note for note in notes_in(head.value).values() if 0 <= note.time < _LATEST] if head else []
    newest = max(notes, key=lambda note: note.time, default=None)
    return None if newest is None else PeerDown(int(newest.time * 1000), one_line(newest.error, MAX_SUMMARY_CHARS))
