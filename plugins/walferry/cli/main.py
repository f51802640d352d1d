"""`walferry` and `python -m walferry.cli`: the command, its groups, and its exit statuses."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from walferry import __version__
from walferry.base.texts import lines_only
from walferry.cli.show import INTERRUPTED, READER_GONE, USAGE, asked_for_json, fail, tell
from walferry.cli.source import Chosen


@dataclass(frozen=True)
class _Lazy:
    """A command whose module is imported when the command is called."""

    module: str
    help: str


COMMANDS: Final = {
    "status": _Lazy("status", "Show how replication stands: lag, backlog and findings, a line for each peer."),
    "queues": _Lazy("status", "Show the queues and their WAL groups: oldest WAL, position, backlog, holder."),
    "metrics": _Lazy("status", "Print how replication stands in Prometheus' text format."),
    "peers": _Lazy("peers", "Replication peers of the source: look at them, create, change, pause and remove them."),
    "plan": _Lazy("batches", "Show what a batch of a peer would ship."),
    "ship": _Lazy("batches", "Ship the queued WALs of a managed peer, without Airflow and Spark."),
    "drain": _Lazy("recovery", "Ship one dead server's queue."),
    "failover": _Lazy("recovery", "Claim and ship all queues of a dead RegionServer."),
    "verify": _Lazy("verify", "Compare a peer's tables at the source and at the peer cluster."),
    "merge": _Lazy("merge", "Bring the tables of state of a peer's lake up to date."),
    "wal": _Lazy("wal", "Show the cells of WALs, and find out who wrote a row, when and where."),
    "compile": _Lazy("compile", "Compile the library's kernels beforehand, so that Spark's executors need not."),
    "pack": _Lazy("pack", "Pack the packages that Spark's executors need, for machines without them."),
    "check": _Lazy("checks", "Look through everything for a source: what works, what does not, what to do."),
    "own-root": _Lazy("own_root", "Show whose Walferry's own root in ZooKeeper is, and take it over."),
    "regions": _Lazy("regions", "Regions of HBase 1 and their transitions."),
}

_COMPLETION = "_WALFERRY_COMPLETE"  # set by the shell's completion
_STATUS = """\
Exit status: 0 if all is well; 1 if the command is refused or fails; 2 for wrong arguments; 3 if something is stuck or behind.
"""


class _LazyGroup(click.Group):
    """A group that imports a command only if it is called: `--help` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        lazy = COMMANDS.get(name)
        if lazy is None:
            return None
        command = getattr(importlib.import_module(f"walferry.cli.{lazy.module}"), name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:  # Click suggests commands only from those that it has imported
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            return fail(error, as_json=asked_for_json(ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in COMMANDS.items()])


@click.group(cls=_LazyGroup, epilog=_STATUS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="walferry %(version)s")
@click.option(
    "--source", metavar="JSON|URI",
    help="The source cluster, as Airflow's JSON or URI of a connection (default: AIRFLOW_CONN_HBASE_SOURCE).",
)  # fmt: skip
@click.option(
    "--conn-id", metavar="ID",
    help="The source cluster, as a connection of Airflow: AIRFLOW_CONN_<ID>, or wherever Airflow keeps it.",
)  # fmt: skip
@click.pass_context
def walferry(ctx: click.Context, source: str | None, conn_id: str | None) -> None:
    """HBase replication moved off the RegionServers: look after peers, queues, WALs and regions."""
    if source and conn_id:
        raise click.UsageError("--source and --conn-id both name the source cluster: give one of them")
    ctx.obj = Chosen(source, conn_id)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status; stderr says why it is not 0."""
    _set_up_logging()
    try:
        status: Any = walferry.main(arguments, prog_name="walferry", standalone_mode=False)
    except click.ClickException as error:
        _show_usage(error)
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        tell("interrupted")
        return INTERRUPTED
    except SystemExit:
        if _COMPLETION in os.environ:
            raise
        # Click ends so if the reader of the output has gone away. Python would try to write the rest at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return READER_GONE
    return status if isinstance(status, int) else 0


def _show_usage(error: click.ClickException) -> None:
    """Show what is wrong with the arguments, after the line with the usage."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        click.echo(context.get_usage(), err=True)
        click.echo(f"Try '{context.command_path} --help'.", err=True)
    tell(error.format_message())


class _ForTerminal(logging.Formatter):
    """Keeps text from servers and znodes from controlling the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return lines_only(super().format(record))


def _set_up_logging() -> None:
    to_terminal = logging.StreamHandler(sys.stderr)
    to_terminal.setFormatter(_ForTerminal("%(message)s"))
    logging.basicConfig(handlers=[to_terminal], level=logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
