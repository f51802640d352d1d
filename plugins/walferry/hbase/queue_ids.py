"""Names of replication queues.

    queue id = peer { "-" dead server }        oldest dead server first
    server   = host "," port "," start code

A peer id has no "-", a host name may have some, so after the first "-" another one ends a server's name only once two commas
of that name have passed (ReplicationQueueInfo.extractDeadServersFromZNodeString). Claiming the queue `q` of server `s` names it
`q-s`.
"""

from dataclasses import dataclass

from walferry.names import ServerName


@dataclass(frozen=True)
class QueueId:
    """A queue's peer and the dead servers it came through, in the order of the claims."""

    peer_id: str
    dead_servers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "-".join((self.peer_id, *self.dead_servers))

    @property
    def recovered(self) -> bool:
        """Whether the queue was claimed from a dead server; such a queue gets no new WALs."""
        return bool(self.dead_servers)

    def claimed_from(self, server: str) -> "QueueId":
        """The id this queue gets when it is claimed from `server`."""
        return QueueId(self.peer_id, (*self.dead_servers, server))


def parse_queue_id(text: str) -> QueueId:
    """The queue id in a znode's name. Raises ValueError naming the text and the part that is no server."""
    peer_id, dash, rest = text.partition("-")
    if not peer_id:
        raise ValueError(f"queue id {text!r} has no peer id before its first '-'")
    servers = tuple(_server_names(rest)) if dash else ()
    for server in servers:
        try:
            ServerName.parse(server)
        except ValueError as error:
            raise ValueError(f"queue id {text!r}: {error}") from error
    return QueueId(peer_id, servers)


def _server_names(text: str) -> list[str]:
    names, start, commas = [], 0, 0
    for i, char in enumerate(text):
        if char == ",":
            commas += 1
        elif char == "-" and commas >= 2:
            names.append(text[start:i])
            start, commas = i + 1, 0
    return [*names, text[start:]]
