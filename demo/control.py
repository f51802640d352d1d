"""Lets scripts act through the running demo, which owns the clusters' processes, by a socket in the demo's own folder."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from demo.state import NoDemoError, read_state

MAX_REQUEST_BYTES = 1000
ANSWER_TIMEOUT_SECONDS = 600

Action = Callable[[], Sequence[str]]


class FaultError(RuntimeError):
    """An action cannot be done now; the message says why."""


class Control:
    """Serves the actions by their names, one after the other, until this process ends."""

    def __init__(self, path: Path, actions: Mapping[str, Action]) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                asked = self.rfile.readline(MAX_REQUEST_BYTES).decode(errors="replace").strip()
                self.wfile.write(json.dumps(_answer(actions, asked)).encode())

        self.path = path
        self._server = socketserver.UnixStreamServer(str(path), Handler)

    def start(self) -> None:
        """Begin to serve in a thread of its own."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


def _answer(actions: Mapping[str, Action], asked: str) -> dict[str, object]:
    if asked not in actions:
        return {"error": f"this demo knows no {asked!r}"}
    try:
        return {"lines": list(actions[asked]())}
    except Exception as error:  # whatever it is, the script tells it, and the demo goes on
        return {"error": str(error) or repr(error)}


def ask(action: str) -> list[str]:
    """Have the running demo do something; returns the lines that it prints. Raises NoDemoError, FaultError."""
    state = read_state()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_TIMEOUT_SECONDS)
        try:
            connection.connect(state.socket)
            connection.sendall(f"{action}\n".encode())
            answer = json.loads(connection.makefile().read())
        except (OSError, ValueError) as error:
            raise NoDemoError(f"the demo (process {state.pid}) does not answer: {error}") from None
    if "error" in answer:
        raise FaultError(answer["error"])
    return list(answer["lines"])


def tell(action: str) -> int:
    """Have the running demo do something and print what it has to tell. Returns the exit status."""
    try:
        click.echo("\n".join(ask(action)))
    except (NoDemoError, FaultError) as error:
        click.echo(f"demo: {error}", err=True)
        return 1
    return 0


def fault_command(name: str, about: str) -> click.Command:
    """The command of a script that breaks something, and with --undo mends it."""

    @click.command(name=f"python -m demo.{name}", help=about)
    @click.option("--undo", is_flag=True, help="Mend it again.")
    @click.pass_context
    def command(context: click.Context, undo: bool) -> None:
        context.exit(tell(f"{name} --undo" if undo else name))

    return command
