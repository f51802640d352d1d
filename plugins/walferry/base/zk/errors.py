"""Errors about a ZooKeeper ensemble, whatever data it stores."""

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line

MAX_ERROR_CHARS = 300
_NO_ACCESS = (
    "Log in to ZooKeeper as a user that the ACL of HBase's znodes names (getAcl <parent>/replication/rs): as HBase itself, or as "
    "one of hbase.superuser"
)


class ConnectError(WalferryError):
    """The ensemble did not answer in time."""


class LoginFailed(ConnectError):
    """A login to the ensemble failed for a reason that may pass: there was no ticket, or a server closed the connection."""


class LoginRefused(LoginFailed):
    """The ensemble does not accept the login, or must not see it."""

    retry_helps = False


class NoAccess(WalferryError):
    """A znode does not allow the login a necessary operation."""

    retry_helps = False

    def __init__(self, whose: str, path: str, advice: str = _NO_ACCESS) -> None:
        super().__init__(f"{path} in ZooKeeper of {whose} belongs to others than this login, and does not let it in", advice)


class ForeignRoot(WalferryError):
    """Other users can write to Walferry's own root, or may have done so."""

    retry_helps = False

    def __init__(self, whose: str, root: str, problem: str) -> None:
        super().__init__(
            f"{root} in ZooKeeper of {whose} is not Walferry's alone: {one_line(problem, MAX_ERROR_CHARS)}. Nothing there is "
            "believed, and nothing is shipped",
            "`walferry own-root` shows what lies there, and makes it ours if you say so. Or set walferry_root of the connection "
            "to a znode that is not there yet",
        )


class AnswerTooLong(WalferryError):
    """A znode has more children, by the length of their names, than a client accepts."""

    retry_helps = False

    def __init__(self, path: str, most_bytes: int) -> None:
        super().__init__(
            f"the children of {path} cannot be listed: their names take more than {most_bytes >> 20} MiB",
            "All other znodes are read. If it is a queue, nothing of it is shipped: delete the znodes of WALs that need not be "
            "shipped any more, or remove the peer and ship its edits again as an interval",
        )
        self.path = path


class ZNodeValueError(WalferryError):
    """A znode's bytes are not the expected value of HBase, or record of Walferry."""

    def __init__(self, znode: str, reason: str, advice: str, *, kind: str = "znode") -> None:
        super().__init__(f"{kind} {znode}: {reason}", advice)
        self.znode = znode
        self.reason = reason


class Contention(WalferryError):
    """A znode kept changing between a read and the write that depends on it."""


class RefusedRequest(WalferryError):
    """ZooKeeper has answered a request with an error that no caller expects, or has not answered it."""

    def __init__(self, error: Exception) -> None:
        text = one_line(str(error), MAX_ERROR_CHARS)
        name = type(error).__name__
        super().__init__(f"ZooKeeper has refused a request: {name}{f': {text}' if text else ''}", _advice(name))


def known(error: Exception) -> WalferryError:
    """Return the error as one of Walferry's if it is Walferry's or kazoo's. Raises any other error."""
    from kazoo.exceptions import KazooException  # a command imports kazoo only if it needs ZooKeeper

    if isinstance(error, WalferryError):
        return error
    if isinstance(error, KazooException):
        return RefusedRequest(error)
    raise error


def _advice(name: str) -> str:
    if name in ("NoAuthError", "InvalidACLError"):
        return _NO_ACCESS
    if name in ("AuthFailedError", "SessionClosedRequireSaslError"):
        return "The ensemble demands a login that it knows: give the connection one (zk_auth)"
    return "See to the ensemble and to the network from here, then try again"
