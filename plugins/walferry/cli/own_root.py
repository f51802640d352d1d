"""`walferry own-root`: whose Walferry's root in ZooKeeper is, and how it becomes ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from walferry.cli.show import STUCK, WELL, put
from walferry.cli.source import CONNECT_SECONDS, Chosen
from walferry.texts import visible

if TYPE_CHECKING:
    from walferry.admin.own_root import OwnRoot

KEEP, DROP = "keep-records", "drop-records"
MAX_SHOWN = 50
MAX_PATH_CHARS = 300
_STATUS = """\
Exit status: 0 if the root is ours, or is now; 1 if the command is refused or fails; 2 for wrong arguments; 3 if it is not ours.
"""


@click.command("own-root", epilog=_STATUS)
@click.option(
    "--take-over", type=click.Choice([KEEP, DROP]),
    help="Make the root ours: delete what lies there, but with keep-records not the records that the command shows.",
)  # fmt: skip
@click.pass_obj
def own_root(chosen: Chosen, take_over: str | None) -> int:
    """Show whose Walferry's own root in ZooKeeper is.

    A root that others made, or whose ACL was changed, is not used: whoever could write there can have left records by which edits
    count as shipped. Look at these before you keep them. Without an option the command changes nothing.
    """
    from walferry.admin import own_root as roots
    from walferry.source.session import Session
    from walferry.zk.client import connected

    source = chosen.read()
    with connected(source.quorum, CONNECT_SECONDS, login=source.login) as zk:
        session = Session(source, zk, look_only=True)
        if take_over is None:
            return _show(roots.look_at_root(session))
        before = roots.take_over(session, keep=take_over == KEEP)
    kept = len(before.records) if take_over == KEEP else 0
    put(f"{before.path} is Walferry's alone now: {kept:,} records are kept, the rest is deleted")
    return WELL


def _show(found: OwnRoot) -> int:
    if found.problem is None:
        put(f"{found.path} is Walferry's alone, or is not there yet")
        return WELL
    put(f"{found.path} is not used: {found.problem}")
    put(f"znodes below it: {found.znodes:,}; those of runs at work: {len(found.at_work):,}")
    put(f"records of first copies, loads and regions: {len(found.records):,}")
    for path in found.records[:MAX_SHOWN]:
        put(f"  {visible(path, MAX_PATH_CHARS)}")
    if len(found.records) > MAX_SHOWN:
        put("  …")
    put(f"Stop all runs, then: walferry own-root --take-over {DROP}")
    put(f"If each of these records is of a run of yours that has not ended: --take-over {KEEP}")
    return STUCK
