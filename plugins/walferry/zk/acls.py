"""To whom the znodes belong that a client creates: see `share`. A session without a login creates znodes that belong to all."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, READ_ACL_UNSAFE, Permissions

from walferry.zk.client import children, retried, whose
from walferry.zk.errors import NoAccess

WORLD = "world"


def share(zk: KazooClient, models: Sequence[str], root: str) -> None:
    """Let what a session with a login creates belong to those that the first existing one of the znodes `models` belongs to.

    So the cluster that made `models` can delete what we create there, and nobody else can change it. Without a model, what the
    session creates is its own. What lies under `root` from times without a login becomes theirs too. Raises NoAccess,
    ConnectError.
    """
    if zk.default_acl is None:
        return
    for path in models:
        found = acl_of(zk, path)
        if found is not None:
            named = [entry for entry in found if entry.id.scheme != WORLD]
            zk.default_acl = named or None
            break
    if zk.default_acl is not None and _all_may_write(acl_of(zk, root)):
        _take(zk, root, zk.default_acl)


def acl_of(zk: KazooClient, path: str) -> list[ACL] | None:
    """Who may do what with a znode; None if it does not exist. Raises NoAccess, ConnectError."""
    try:
        acl: list[ACL] = retried(zk, zk.get_acls, path)[0]
    except NoNodeError:
        return None
    except NoAuthError as error:
        raise NoAccess(whose(zk).name, path) from error
    return acl


def readable_by_all(zk: KazooClient) -> list[ACL] | None:
    """The ACL for a znode that belongs to the same, but that all clients read; None if all znodes belong to all."""
    return None if zk.default_acl is None else [*zk.default_acl, *READ_ACL_UNSAFE]


def strangers(zk: KazooClient, path: str) -> list[str]:
    """Who may change a znode, but for those that a session's own znodes belong to, as "digest:mallory:…".

    Raises NoAccess, ConnectError.
    """
    ours = {entry.id for entry in zk.default_acl or ()}
    others = {entry.id for entry in acl_of(zk, path) or () if entry.perms & ~Permissions.READ} - ours
    return sorted(f"{each.scheme}:{each.id}" for each in others)


def _all_may_write(acl: list[ACL] | None) -> bool:
    return any(entry.id.scheme == WORLD and entry.perms & ~Permissions.READ for entry in acl or ())


def _take(zk: KazooClient, path: str, acl: list[ACL]) -> None:
    """Give a tree away, the root last: whatever interrupts this, the next session finds it undone, and does it again."""
    tree = [path]
    for each in tree:  # it grows meanwhile
        tree += [f"{each}/{name}" for name in children(zk, each) or ()]
    for each in reversed(tree):
        try:
            retried(zk, zk.set_acls, each, acl)
        except NoNodeError:
            pass  # it has just been deleted
        except NoAuthError as error:
            raise NoAccess(whose(zk).name, each) from error
