"""Decides who owns the znodes that a client creates, and whether these owners alone can write to Walferry's root.

A session with a login gives its znodes the owners of HBase's own znodes (`belongs_as`). The znodes of a session without a login
are open to all, like everything there.

Znodes below the root matter: they say which edits are shipped, and where a load has left files. So with a login, a session uses
only a root to which no other user can ever have written (`claim_root`). ZooKeeper proves that: the root's ACL names no other
user, and has been the same since the root was made (`aversion` is 0; no client can set it back). Other users cannot make a znode
below such a root, so everything there is ours, and no list of it is needed. A root that others made, perhaps with our ACL in the
end, or whose ACL was changed, is refused; `take_over` makes it ours at an operator's command (`walferry own-root`).

One request makes the root with its ACL and a child: users who may delete below its parent cannot replace a root that is not
empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, READ_ACL_UNSAFE, Permissions

from walferry.base.texts import shell_word
from walferry.base.zk.client import Refusal, commit, expected, retried, whose
from walferry.base.zk.errors import Contention, ForeignRoot, NoAccess

WORLD = "world"
CHILD = "clock"  # a child of the root; `just_written` reads ZooKeeper's time from it
TRIES = 20  # a try fails if another client makes or deletes the root meanwhile
MAX_NAMED = 10
_LETTERS = ((Permissions.CREATE, "c"), (Permissions.DELETE, "d"), (Permissions.READ, "r"), (Permissions.WRITE, "w"),
            (Permissions.ADMIN, "a"))  # fmt: skip


def share(zk: KazooClient, models: Sequence[str], root: str) -> None:
    """Give the znodes of a session with a login the owners of HBase's znodes, and claim the root for these owners alone.

    Raises ForeignRoot, NoAccess, Contention, ConnectError.
    """
    if belongs_as(zk, models):
        claim_root(zk, root)


def belongs_as(zk: KazooClient, models: Sequence[str]) -> bool:
    """Give the znodes of a session with a login the owners of the first existing znode of `models`.

    So the cluster that made `models` can delete our znodes there, and no one else can change them. Without a model, the session
    itself owns its znodes. Returns whether there are owners: not without a login, nor if the model is open to all. Raises
    NoAccess, ConnectError.
    """
    if zk.default_acl is None:
        return False
    for path in models:
        try:
            found = _look(zk, path)
        except NoAuthError as error:
            raise NoAccess(whose(zk).name, path) from error
        if found is not None:
            zk.default_acl = [entry for entry in found[0] if entry.id.scheme != WORLD] or None
            return zk.default_acl is not None
    return False


def check_root(zk: KazooClient, models: Sequence[str], root: str) -> None:
    """Check the same as `share`, for a session that only reads, and make nothing. Raises ForeignRoot, NoAccess, ConnectError."""
    found = root_of(zk, root) if belongs_as(zk, models) else None
    if found is not None and (problem := problem_of(zk, *found)):
        raise ForeignRoot(whose(zk).name, root, problem)


def claim_root(zk: KazooClient, root: str) -> None:
    """Make sure that the root exists, and that only the owners of this session's znodes can ever have written to it.

    Raises ForeignRoot, NoAccess, Contention, ConnectError.
    """
    for _ in range(TRIES):
        found = root_of(zk, root)
        if found is None:
            _make(zk, root)
            continue
        if problem := problem_of(zk, *found):
            raise ForeignRoot(whose(zk).name, root, problem)
        if found[1].numChildren:
            return
        try:
            retried(zk, zk.create, f"{root}/{CHILD}")
        except (NodeExistsError, NoNodeError, NoAuthError):
            continue
    raise Contention(f"{root} changed {TRIES} times while it was being made; try again later")


def root_of(zk: KazooClient, root: str) -> tuple[list[ACL], ZnodeStat] | None:
    """Return the root's ACL and stat; None if it is missing. Raises ForeignRoot if this login may not read them, ConnectError."""
    try:
        return _look(zk, root)
    except NoAuthError as error:
        raise ForeignRoot(whose(zk).name, root, "it does not let this login in") from error


def problem_of(zk: KazooClient, acl: Sequence[ACL], stat: ZnodeStat) -> str | None:
    """Return why others may have written to a znode with this ACL, or below it; None if they cannot have."""
    ours = {entry.id for entry in zk.default_acl or ()}
    others = {entry.id for entry in acl if entry.perms & ~Permissions.READ} - ours
    if others:
        names = sorted(f"{each.scheme}:{each.id}" for each in others)  # "digest:mallory:…"
        return f"it can be changed by {', '.join(names[:MAX_NAMED])}, whom HBase's znodes do not belong to"
    if stat.aversion:
        return "its ACL was changed after it was made, so others may have put there what lies below it"
    return None


def readable_by_all(zk: KazooClient) -> list[ACL] | None:
    """Return the ACL for a znode with the same owners that all clients can read; None if all znodes are open to all."""
    return None if zk.default_acl is None else [*zk.default_acl, *READ_ACL_UNSAFE]


def shown(acl: Sequence[ACL]) -> str:
    """Return an ACL in the syntax of ZooKeeper's own client: "sasl:hbase:cdrwa"."""
    return ",".join(
        f"{entry.id.scheme}:{entry.id.id}:{''.join(letter for bit, letter in _LETTERS if entry.perms & bit)}" for entry in acl
    )


def _look(zk: KazooClient, path: str) -> tuple[list[ACL], ZnodeStat] | None:
    try:
        acl, stat = retried(zk, zk.get_acls, path)
    except NoNodeError:
        return None
    return acl, stat


def _make(zk: KazooClient, root: str) -> None:
    """Make the root; another client may do so at the same time."""

    def make() -> Refusal | None:
        multi = zk.transaction()
        multi.create(root, b"", zk.default_acl)
        multi.create(f"{root}/{CHILD}", b"", zk.default_acl)
        return commit(multi)

    parent = root.rpartition("/")[0]
    try:
        if parent:
            retried(zk, zk.ensure_path, parent)
        expected(retried(zk, make), NodeExistsError, NoNodeError)
    except NoAuthError as error:
        how = f"create {shell_word(root)} '' {shown(zk.default_acl)}"
        advice = f"Let a user who may write there make Walferry's root in ZooKeeper's own client: {how}"
        raise NoAccess(whose(zk).name, parent or "/", advice) from error
