"""Errors about a ZooKeeper ensemble, whatever it stores."""

from walferry.errors import WalferryError
from walferry.texts import one_line

MAX_ERROR_CHARS = 300


class ConnectError(WalferryError):
    """The ensemble did not answer in time."""


class Contention(WalferryError):
    """A znode kept changing between a read and the write that depends on it."""


class RefusedRequest(WalferryError):
    """ZooKeeper has answered a request with an error that no caller expects, or has not answered it."""

    def __init__(self, error: Exception) -> None:
        text = one_line(str(error), MAX_ERROR_CHARS)
        name = type(error).__name__
        super().__init__(f"ZooKeeper has refused a request: {name}{f': {text}' if text else ''}", _advice(name))


def known(error: Exception) -> WalferryError:
    """The error as one of ours, if it is that or kazoo's. Raises it if it is neither."""
    from kazoo.exceptions import KazooException  # a command imports it only if it needs ZooKeeper

    if isinstance(error, WalferryError):
        return error
    if isinstance(error, KazooException):
        return RefusedRequest(error)
    raise error


def _advice(name: str) -> str:
    if name in ("NoAuthError", "AuthFailedError", "InvalidACLError"):
        return "The user of this process may not read or write a znode: see to its ACL, or run as a user that it names"
    return "See to the ensemble and to the network from here, then try again"
