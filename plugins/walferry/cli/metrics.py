"""`walferry metrics`: how replication stands, for Prometheus."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from walferry.base.errors import WalferryError
from walferry.base.texts import lines_only
from walferry.cli.show import ERROR, WELL, tell
from walferry.cli.source import Chosen
from walferry.replication.source.cluster import DEFAULT_CONN_ID

LOOK_SECONDS = 8.0  # for files and slaves; what takes longer is told as unknown
OLD_WALS_SECONDS = 60.0


class NotWritten(WalferryError):
    """The file of metrics cannot be written."""


@click.command(epilog="Exit status: 0 if the source was looked at; 1 if it cannot be; 2 for wrong arguments.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write to this file instead, at once as a whole: for node_exporter's textfile collector its name ends in .prom.",
)  # fmt: skip
@click.option("--old-wals/--no-old-wals", default=True, help="List oldWALs, too, which costs a call of the file system.")
@click.pass_obj
def metrics(chosen: Chosen, output: Path | None, old_wals: bool) -> int:
    """Print how replication stands in Prometheus' text format.

    It changes nothing of the cluster and listens on no port. docs/monitoring.md tells of each metric. If the source cannot be
    looked at, `walferry_source_up` is 0, and the others are left out.
    """
    from walferry.observe.status.measures import exposition, measured
    from walferry.observe.status.statuses import Statuses

    source = chosen.read()
    statuses = Statuses(LOOK_SECONDS, LOOK_SECONDS)
    status = statuses.of(source)
    kept = statuses.old_wals(source, OLD_WALS_SECONDS) if old_wals and status.unreachable is None else None
    text = exposition({chosen.conn_id or DEFAULT_CONN_ID: measured(status, kept)})
    if output is None:
        click.echo(lines_only(text) if sys.stdout.isatty() else text, nl=False)
    else:
        _write(output, text)
    if status.unreachable is not None:
        tell(status.unreachable)
        return ERROR
    return WELL


def _write(output: Path, text: str) -> None:
    """Put the text in place of the file, which whoever reads it sees either as it was or as a whole. Raises NotWritten."""
    beside = output.with_name(f".{output.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(output)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise NotWritten(f"{output} cannot be written: {error.strerror}") from error
