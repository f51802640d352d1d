"""Errors about a ZooKeeper ensemble, whatever it stores."""

from walferry.errors import WalferryError


class ConnectError(WalferryError):
    """The ensemble did not answer in time."""


class Contention(WalferryError):
    """A znode kept changing between a read and the write that depends on it."""
