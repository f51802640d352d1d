"""What can be wrong with a ZooKeeper ensemble, whatever is kept in it."""

from walferry.errors import WalferryError


class ConnectError(WalferryError):
    """The ensemble did not answer in time."""


class Contention(WalferryError):
    """A znode changed between our reading and our writing, again and again."""
