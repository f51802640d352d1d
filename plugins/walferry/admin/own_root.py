"""Shows whose Walferry's own root in ZooKeeper is, and takes over a root that others made, or that is from times without logins.

No session uses a root that others may have written to (base/zk/acls.py), and no change of ACLs proves that they have not. So a
take-over deletes the root and makes it again:

    1. it closes all znodes from the root down to others, each before listing its children: from then on nothing is added
    2. it ends here if a run is at work there
    3. it deletes everything there except the records that an operator has read and wants kept. It ends here if
       these are not the records that were shown: others may have changed them until the first step
    4. in one request it deletes these, makes the root again with its ACL, and writes the records below it again

If it is killed between any two steps, the next try goes on, and no session has used the root meanwhile. Only these records keep
edits safe: a run makes everything else again. Only the records' values are read, as others may have put any amount of data there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError, NotEmptyError
from kazoo.protocol.states import ZnodeStat

from walferry.admin.peers import Refused
from walferry.base.texts import visible
from walferry.base.zk.acls import CHILD, belongs_as, problem_of, root_of
from walferry.base.zk.client import Refusal, ZNode, children_all, commit, read_all, retried, stat_all, whose
from walferry.base.zk.errors import NoAccess
from walferry.replication.source.session import Session, owners_of

# Below the root. By these records edits count as shipped, waiting, or loaded, and regions are moved.
RECORDS = ("initial-snapshots", "lake-copies", "loads", "regions")
MAX_KEPT_BYTES = 900_000  # in one request; ZooKeeper takes 1 MiB (jute.maxbuffer)
MAX_NAMED = 10
MAX_PATH_CHARS = 300
_PER_ZNODE_BYTES = 200
MARK_CHARS = 16
_CLOSED = "Let a superuser of ZooKeeper delete it, or set walferry_root of the connection to a znode that is not there yet"


Stats = Mapping[str, ZnodeStat]  # by path, parents first


@dataclass(frozen=True)
class Record:
    """A record below the root, and when it was written last, by ZooKeeper's clock in ms since the epoch."""

    path: str
    written_ms: int


@dataclass(frozen=True)
class OwnRoot:
    """The root as it is: why no session uses it (None: it is ours, or does not exist yet), and the records below it.

    `mark` identifies these records: other records have another mark. It is empty if the records are too large to be kept.
    """

    path: str
    problem: str | None
    znodes: int = 0
    records: tuple[Record, ...] = ()
    at_work: tuple[str, ...] = ()  # znodes of sessions
    mark: str = ""


def look_at_root(session: Session) -> OwnRoot:
    """Look at the root, and change nothing. Raises Refused where there are no logins, NoAccess, ConnectError."""
    zk, root = session.zk, session.source.root
    _check_owners(session)
    found = root_of(zk, root)
    if found is None:
        return OwnRoot(root, None)
    try:
        stats = _stats(zk, _tree(zk, root))
        kept = _kept(root, stats)
        values = _values(zk, kept) if _size(stats, kept) <= MAX_KEPT_BYTES else None
    except NoAuthError as error:
        raise NoAccess(whose(zk).name, f"{root}, or what lies below it,", _CLOSED) from error
    return _described(root, problem_of(zk, *found), stats, "" if values is None else _mark(values))


def take_over(session: Session, *, keep: str | None) -> OwnRoot:
    """Make the root ours, without its records, or with the records that were shown under the mark `keep`.

    Returns the root as it was. Raises Refused, NoAccess, ConnectError.
    """
    zk, root = session.zk, session.source.root
    _check_owners(session)
    found = root_of(zk, root)
    problem = problem_of(zk, *found) if found else None
    if problem is None:
        raise Refused(f"{root} is Walferry's alone, or is not there yet", "There is nothing to take over")
    stats = _stats(zk, _tree(zk, root, before=_close))
    before = _described(root, problem, stats)
    if before.at_work:
        raise Refused(
            f"runs are at work below {root}: {', '.join(before.at_work[:MAX_NAMED])}",
            "It is closed to others now. Let these runs end, or stop them, then take it over again",
        )
    kept = {} if keep is None else _checked(zk, root, stats, keep)
    _delete(zk, [path for path in reversed(stats) if path != root and path not in kept])
    _make_anew(zk, root, kept)
    return before


def _checked(zk: KazooClient, root: str, stats: Stats, mark: str) -> dict[str, ZNode]:
    """Return the records and the znodes above them. Raises Refused if they do not have this mark, or cannot be kept."""
    kept = _kept(root, stats)
    if (size := _size(stats, kept)) > MAX_KEPT_BYTES:
        raise Refused(
            f"the records below {root} have {size:,} bytes, and at most {MAX_KEPT_BYTES:,} can be kept",
            "Delete the records of initial snapshots that are to begin anew, or of all regions of a table, then try again",
        )
    values = _values(zk, kept)
    if _mark(values) != mark:
        raise Refused(
            f"the records below {root} are not those that were shown",
            "It is closed to others now, so they do not change any more: look at them again with `walferry own-root`",
        )
    return values


def _check_owners(session: Session) -> None:
    if not belongs_as(session.zk, owners_of(session)):
        raise Refused(
            f"{session.source.root} belongs to everyone, as HBase's own znodes do",
            "Without logins there is nobody to take it over: see docs/security.md",
        )


def _described(root: str, problem: str | None, stats: Stats, mark: str = "") -> OwnRoot:
    return OwnRoot(
        root, problem, len(stats) - 1,
        records=tuple(Record(path, int(stats[path].mtime)) for path in _records(root, stats)),
        at_work=tuple(visible(path, MAX_PATH_CHARS) for path, stat in stats.items() if stat.ephemeralOwner),
        mark=mark,
    )  # fmt: skip


def _records(root: str, stats: Stats) -> list[str]:
    folders = tuple(f"{root}/{name}/" for name in RECORDS)
    return [path for path, stat in stats.items() if path.startswith(folders) and stat.dataLength and not stat.ephemeralOwner]


def _mark(znodes: Mapping[str, ZNode]) -> str:
    """Return a short text that differs for other paths or values."""
    digest = hashlib.sha256()
    for path, znode in sorted(znodes.items()):
        digest.update(f"{len(path)} {len(znode.value)} {path}".encode() + znode.value)
    return digest.hexdigest()[:MARK_CHARS]


def _tree(zk: KazooClient, root: str, before: Callable[[KazooClient, str], None] = lambda zk, path: None) -> list[str]:
    """Return the paths of the root and all znodes below it, parents first. `before` gets each before its children are listed."""
    tree, level = list[str](), [root]
    while level:
        tree += level
        for path in level:
            before(zk, path)
        level = _below(zk, level)
    return tree


def _close(zk: KazooClient, path: str) -> None:
    try:
        with suppress(NoNodeError):
            retried(zk, zk.set_acls, path, zk.default_acl)
    except NoAuthError as error:
        raise NoAccess(whose(zk).name, path, _CLOSED) from error


def _below(zk: KazooClient, paths: Sequence[str]) -> list[str]:
    found = zip(paths, children_all(zk, paths), strict=True)
    return [f"{path}/{name}" for path, names in found for name in names or ()]


def _stats(zk: KazooClient, paths: Sequence[str]) -> dict[str, ZnodeStat]:
    """Return the stats of the znodes that still exist, in the order of the paths."""
    return {path: stat for path, stat in zip(paths, stat_all(zk, paths), strict=True) if stat is not None}


def _values(zk: KazooClient, paths: Sequence[str]) -> dict[str, ZNode]:
    """Return the znodes that still exist, in the order of the paths."""
    return {path: znode for path, znode in zip(paths, read_all(zk, paths), strict=True) if znode is not None}


def _kept(root: str, stats: Stats) -> list[str]:
    """Return the records, and all znodes above them up to the root, parents first."""
    found = {root}
    for path in _records(root, stats):
        while path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return [path for path in stats if path in found]


def _size(stats: Stats, paths: Collection[str]) -> int:
    """Return the bytes of a request that keeps these znodes."""
    return sum(int(stats[path].dataLength) + 2 * len(path) + _PER_ZNODE_BYTES for path in paths)


def _delete(zk: KazooClient, paths: Sequence[str]) -> None:
    for path in paths:
        try:
            with suppress(NoNodeError):
                retried(zk, zk.delete, path)
        except NotEmptyError as error:
            raise Refused(f"a run still writes below {visible(path, MAX_PATH_CHARS)}", "Stop it, then try again") from error


def _make_anew(zk: KazooClient, root: str, kept: dict[str, ZNode]) -> None:
    """Delete the root and its kept records, and write both again, in one request."""

    def send() -> Refusal | None:
        multi = zk.transaction()
        for path, znode in reversed(kept.items()):
            if path != root:
                multi.delete(path, znode.stat.version)
        multi.delete(root)
        multi.create(root, b"", zk.default_acl)
        multi.create(f"{root}/{CHILD}", b"", zk.default_acl)
        for path, znode in kept.items():
            if path != root:
                multi.create(path, znode.value, zk.default_acl)
        return commit(multi)

    refusal = retried(zk, send)
    found = root_of(zk, root)
    if found is None or problem_of(zk, *found) is not None:
        why = f" ({type(refusal.error).__name__})" if refusal is not None else ""
        raise Refused(f"{root} has changed while it was being taken over{why}", "Stop what writes there, then try again")
