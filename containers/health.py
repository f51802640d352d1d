"""Is the program of this container well? Exits with 0 or 1; the reason is on stderr, where `docker inspect` shows it.

health.py http URL [FIELD=VALUE …]   an answer 200, whose JSON has these values (a field of a field: `metadatabase.status`)
health.py tcp HOST PORT              something listens
health.py connect                    the Spark Connect server of this machine answers a call with the token
"""

from __future__ import annotations

import json
import os
import socket
import sys
import urllib.request
from collections.abc import Sequence

SECONDS = 10
# Each session costs the server memory, so all checks share one.
SESSION = "00000000-0000-0000-0000-00000000c4ec"


def http(url: str, *expected: str) -> None:
    """Raises an exception unless `url` answers as expected."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        found = json.load(answer) if expected else None
    for each in expected:
        field, _, value = each.partition("=")
        part = found
        for name in field.split("."):
            part = part[name]
        if str(part) != value:
            raise ValueError(f"{url}: {field} is {part!r}, not {value!r}")


def tcp(host: str, port: str) -> None:
    """Raises an exception unless something listens."""
    socket.create_connection((host, int(port)), SECONDS).close()


def connect() -> None:
    """Raises an exception unless the Spark Connect server answers."""
    from walferry.base.protos import spark_connect_pb2 as messages
    from walferry.jobs.connect.server import Address, Server

    with open(os.environ["CONNECT_SERVER_TOKEN_FILE"], encoding="utf-8") as file:
        token = file.read().strip()
    request = messages.ArtifactStatusesRequest(session_id=SESSION, names=["none"])
    request.user_context.user_id = "health"
    with Server(Address("127.0.0.1", int(os.environ.get("CONNECT_PORT", "15002")), token=token)) as server:
        server.artifact_status(request)


def main(words: Sequence[str]) -> int:
    checks = {"http": http, "tcp": tcp, "connect": connect}
    try:
        checks[words[0]](*words[1:])
    except Exception as error:  # whatever it is, it is not well
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
