"""Parameters that several commands have, and the functions that read their values."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from walferry.cli.show import remember_json
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.names import without_default_namespace
from walferry.replication.peers.settings import SinkKind

MAX_SECONDS = 1e6
MAX_PORT = 65535
MAX_FILE_BYTES = 1 << 20  # of a file whose text an option takes
MAX_DEADLINE_SECONDS = 7 * 86400
MAX_WORKERS = 64
BROKEN_WALS = ("stop", "whole-entries", "quarantine")  # walferry.hbase.files.quarantine.BrokenWals
SINKS = tuple(map(str, SinkKind))
F = TypeVar("F", bound=Callable[..., Any])


class Parsed(click.ParamType[Any]):
    """A parameter whose text a function reads. A ValueError of the function is a usage error."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value that the function reads from the text. A default may be a value already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def text_of_file(path: str) -> str:
    """Return the text of a file in UTF-8, of MAX_FILE_BYTES at most. Raises ValueError."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except UnicodeDecodeError as error:
        raise ValueError(f"file {path} is not in UTF-8: {error}") from error
    except OSError as error:
        raise ValueError(f"file {path} cannot be read: {error.strerror}") from error
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(f"file {path} has more than {MAX_FILE_BYTES:,} characters")
    if not text.strip():
        raise ValueError(f"file {path} is empty")
    return text


def time_of(text: str) -> int:
    """Return milliseconds since the epoch, from such a number or ISO 8601. Times without an offset are UTC. Raises ValueError."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: give 2024-05-01, 2024-05-01T12:30:00, 2024-05-01T12:30:00+02:00 or milliseconds since 1970"
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def seconds_of(text: str) -> float:
    """Return a number of seconds. Raises ValueError."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= MAX_SECONDS:  # this is never true of NaN
        raise ValueError(f"{text} is not a number of seconds")
    return found


def table_of(text: str) -> bytes:
    """Return a table's name as WALs have it: without the default namespace. Raises ValueError."""
    return from_binary_text(without_default_namespace(text))


BYTES = Parsed("text", from_binary_text)  # as HBase shows bytes, with \x escapes
TABLE = Parsed("table", table_of)
TIME = Parsed("time", time_of)
SECONDS = Parsed("seconds", seconds_of)
PORT = click.IntRange(0, MAX_PORT)


def json_option(help: str) -> Callable[[Any], Any]:
    """Return a decorator that adds `as_json` to a command. With it an error is JSON, too."""
    return click.option("--json", "as_json", is_flag=True, callback=remember_json, help=help)


as_json = json_option("Print JSON, for other programs.")
watch = click.option(
    "--watch", type=click.FloatRange(0.5, MAX_SECONDS), metavar="SECONDS", help="Show it again and again, until Ctrl-C."
)
allow_missing = click.option(
    "--allow-missing", is_flag=True, help="Do it even if tables, families or namespaces are missing, or the peer cluster is down."
)

workers = click.option(
    "--workers", type=click.IntRange(1, MAX_WORKERS), default=lambda: len(os.sched_getaffinity(0)), metavar="N",
    help="Processes at a time (default: as many as there are cores).",
)  # fmt: skip


def added(*given: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, in this order."""

    def to(command: F) -> F:
        for option in reversed(given):
            command = option(command)
        return command

    return to


shown: Callable[[Callable[..., int]], Callable[..., int]] = added(as_json, watch, click.pass_obj)  # for showing


def shipping(deadline: int) -> Callable[[F], F]:
    """Return a decorator for commands that ship: adds `deadline`, `broken_wals`, `sink`, `master_absent` and `workers`."""
    return added(
        click.option(
            "--deadline", type=click.IntRange(10, MAX_DEADLINE_SECONDS), default=deadline, show_default=True,
            metavar="SECONDS", help="Stop reading and retrying after this time; the rest stays queued.",
        ),
        click.option(
            "--broken-wals", type=click.Choice(BROKEN_WALS), default="stop", show_default=True,
            help="What becomes of a broken WAL.",
        ),
        click.option("--sink", type=click.Choice(SINKS), help="How edits are sent (default: as the peer says)."),
        click.option(
            "--master-absent", is_flag=True,
            help="The source has no active HMaster, and none comes while this runs: trust the peers in ZooKeeper.",
        ),
        workers,
    )  # fmt: skip
