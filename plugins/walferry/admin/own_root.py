"""Shows whose Walferry's own root in ZooKeeper is, and takes it over: one that others made, or that is from times without logins.

No session uses a root that others may have written to (zk/acls.py), and no change of ACLs proves that they have not. So a root is
taken over by making it anew:

    1. all znodes from the root down are closed to others, each before its children are listed: from then on nothing is added
    2. if a run is at work there, that is the end
    3. what lies there is deleted, except for the records that an operator has looked at and wants kept
    4. in one request these are deleted, the root is made anew with its ACL, and they are written below it again

Killed between any two steps, the next try goes on, and no session has used the root meanwhile. Nothing of what is deleted keeps
edits safe but these records: a run makes the rest again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError, NotEmptyError

from walferry.admin.errors import Refused
from walferry.source.session import Session, owners_of
from walferry.texts import visible
from walferry.zk.acls import CHILD, belongs_as, problem_of, root_of
from walferry.zk.client import Refusal, ZNode, children_all, commit, read_all, retried, whose
from walferry.zk.errors import NoAccess

# Below the root. By these, edits count as shipped, wait, are loaded or have been; and regions are moved.
RECORDS = ("first-copies", "loads", "regions")
MAX_KEPT_BYTES = 900_000  # in one request; ZooKeeper takes 1 MiB (jute.maxbuffer)
READ_AT_ONCE = 256  # znodes
MAX_NAMED = 10
MAX_PATH_CHARS = 300
_PER_ZNODE_BYTES = 200
_CLOSED = "Let a superuser of ZooKeeper delete it, or set walferry_root of the connection to a znode that is not there yet"


@dataclass(frozen=True)
class OwnRoot:
    """The root as it is: why no session uses it (None: it is ours, or not there yet), and what lies below it."""

    path: str
    problem: str | None
    znodes: int = 0
    records: tuple[str, ...] = ()
    at_work: tuple[str, ...] = ()  # znodes of sessions


def look_at_root(session: Session) -> OwnRoot:
    """Look at the root, and change nothing. Raises Refused where there are no logins, NoAccess, ConnectError."""
    zk, root = session.zk, session.source.root
    _check_owners(session)
    found = root_of(zk, root)
    if found is None:
        return OwnRoot(root, None)
    try:
        return _described(root, problem_of(zk, *found), _values(zk, root, _tree(zk, root)))
    except NoAuthError as error:
        raise NoAccess(whose(zk).name, f"{root}, or what lies below it,", _CLOSED) from error


def take_over(session: Session, *, keep: bool) -> OwnRoot:
    """Make the root ours, with or without the records that are there. Returns what it was.

    Raises Refused, NoAccess, ConnectError.
    """
    zk, root = session.zk, session.source.root
    _check_owners(session)
    found = root_of(zk, root)
    problem = problem_of(zk, *found) if found else None
    if problem is None:
        raise Refused(f"{root} is Walferry's alone, or is not there yet", "There is nothing to take over")
    znodes = _values(zk, root, _closed(zk, root))
    before = _described(root, problem, znodes)
    if before.at_work:
        raise Refused(
            f"runs are at work below {root}: {', '.join(before.at_work[:MAX_NAMED])}",
            "It is closed to others now. Let these runs end, or stop them, then take it over again",
        )
    kept = _with_parents(root, before.records) if keep else {root}
    _check_size(root, [znodes[path] for path in kept if path in znodes], kept)
    _delete(zk, [path for path in reversed(znodes) if path not in kept])
    _make_anew(zk, root, {path: znode for path, znode in znodes.items() if path in kept})
    return before


def _check_owners(session: Session) -> None:
    if not belongs_as(session.zk, owners_of(session)):
        raise Refused(
            f"{session.source.root} belongs to everyone, as HBase's own znodes do",
            "Without logins there is nobody to take it over: see docs/security.md",
        )


def _described(root: str, problem: str | None, znodes: dict[str, ZNode]) -> OwnRoot:
    folders = _record_folders(root)
    return OwnRoot(
        root, problem, len(znodes) - 1,
        records=tuple(path for path, znode in znodes.items() if path.startswith(folders) and znode.value and not _goes(znode)),
        at_work=tuple(visible(path, MAX_PATH_CHARS) for path, znode in znodes.items() if _goes(znode)),
    )  # fmt: skip


def _goes(znode: ZNode) -> bool:
    """Whether it goes with a session."""
    return bool(znode.stat.ephemeralOwner)


def _tree(zk: KazooClient, root: str) -> list[str]:
    """The paths of the root and of all that lies below it, parents first."""
    tree, level = [root], [root]
    while level:
        level = _below(zk, level)
        tree += level
    return tree


def _closed(zk: KazooClient, root: str) -> list[str]:
    """As `_tree`, and each znode is closed to others before its children are listed."""
    tree, level = list[str](), [root]
    while level:
        tree += level
        for path in level:
            try:
                retried(zk, zk.set_acls, path, zk.default_acl)
            except NoNodeError:
                continue
            except NoAuthError as error:
                raise NoAccess(whose(zk).name, path, _CLOSED) from error
        level = _below(zk, level)
    return tree


def _below(zk: KazooClient, paths: Sequence[str]) -> list[str]:
    found = zip(paths, children_all(zk, paths), strict=True)
    return [f"{path}/{name}" for path, names in found for name in names or ()]


def _values(zk: KazooClient, root: str, paths: Sequence[str]) -> dict[str, ZNode]:
    """The znodes that are still there, in the order of the paths. Only records keep their values: there may be very many runs."""
    found, folders = dict[str, ZNode](), _record_folders(root)
    for start in range(0, len(paths), READ_AT_ONCE):
        some = paths[start : start + READ_AT_ONCE]
        for path, znode in zip(some, read_all(zk, some), strict=True):
            if znode is not None:
                found[path] = znode if path.startswith(folders) else znode._replace(value=b"")
    return found


def _record_folders(root: str) -> tuple[str, ...]:
    return tuple(f"{root}/{name}/" for name in RECORDS)


def _with_parents(root: str, paths: Collection[str]) -> set[str]:
    """These znodes, and all above them up to the root."""
    found = {root}
    for path in paths:
        while path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found


def _check_size(root: str, znodes: Sequence[ZNode], paths: Collection[str]) -> None:
    size = sum(len(znode.value) for znode in znodes) + sum(2 * len(path) + _PER_ZNODE_BYTES for path in paths)
    if size > MAX_KEPT_BYTES:
        raise Refused(
            f"the records below {root} have {size:,} bytes, and at most {MAX_KEPT_BYTES:,} can be kept",
            "Delete those of first copies that are to begin anew, or of all regions of a table, then try again",
        )


def _delete(zk: KazooClient, paths: Sequence[str]) -> None:
    for path in paths:
        try:
            with suppress(NoNodeError):
                retried(zk, zk.delete, path)
        except NotEmptyError as error:
            raise Refused(f"a run still writes below {visible(path, MAX_PATH_CHARS)}", "Stop it, then try again") from error


def _make_anew(zk: KazooClient, root: str, kept: dict[str, ZNode]) -> None:
    """Delete the root and what is kept of it, and write both again, in one request."""

    def send() -> Refusal | None:
        multi = zk.transaction()
        for path, znode in reversed(kept.items()):
            multi.delete(path, znode.stat.version)
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
