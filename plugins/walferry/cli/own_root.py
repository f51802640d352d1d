"""`walferry own-root`: shows whose Walferry's root in ZooKeeper is, and makes it ours."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from walferry.base.texts import visible
from walferry.cli.show import STUCK, WELL, put
from walferry.cli.source import CONNECT_SECONDS, Chosen

if TYPE_CHECKING:
    from walferry.admin.own_root import OwnRoot

KEEP, DROP = "keep-records", "drop-records"
MAX_SHOWN = 50  # of records that cannot be kept; records that can be kept are all shown, because an operator has to look at each
MAX_PATH_CHARS = 300
_STATUS = """\
Exit status: 0 if the root is ours, or is now; 1 if the command is refused or fails; 2 for wrong arguments; 3 if it is not ours.
"""


@click.command("own-root", epilog=_STATUS)
@click.option(
    "--take-over", type=click.Choice([KEEP, DROP]),
    help="Make the root ours: delete what lies there, but with keep-records not the records that the command shows.",
)  # fmt: skip
@click.option("--shown", metavar="MARK", help="With keep-records: the mark that the command showed with the records.")
@click.pass_obj
def own_root(chosen: Chosen, take_over: str | None, shown: str | None) -> int:
    """Show whose Walferry's own root in ZooKeeper is.

    Walferry does not use a root that others made, or whose ACL was changed: others may have written records there by which edits
    count as shipped. Look at the records before you keep them: only the records that were shown are kept. Without an option the
    command changes nothing.
    """
    if (shown is not None) != (take_over == KEEP):
        raise click.UsageError(f"--shown belongs to --take-over {KEEP}, which keeps the records that were shown with this mark")
    from walferry.admin import own_root as roots
    from walferry.base.zk.client import connected
    from walferry.replication.source.session import Session

    source = chosen.read()
    with connected(source.quorum, CONNECT_SECONDS, login=source.login) as zk:
        session = Session(source, zk, look_only=True)
        if take_over is None:
            return _show(roots.look_at_root(session))
        before = roots.take_over(session, keep=shown)
    kept = len(before.records) if take_over == KEEP else 0
    put(f"{before.path} is Walferry's alone now: {kept:,} records are kept, the rest is deleted")
    return WELL


def _show(found: OwnRoot) -> int:
    if found.problem is None:
        put(f"{found.path} is Walferry's alone, or is not there yet")
        return WELL
    put(f"{found.path} is not used: {found.problem}")
    put(f"znodes below it: {found.znodes:,}; of runs at work: {len(found.at_work):,}")
    put(f"records of initial snapshots, loads and regions: {len(found.records):,}")
    for record in found.records if found.mark else found.records[:MAX_SHOWN]:
        written = datetime.fromtimestamp(record.written_ms / 1000, UTC)
        put(f"  {written:%Y-%m-%d %H:%M:%S}  {visible(record.path, MAX_PATH_CHARS)}")
    put(f"Stop all runs, then: walferry own-root --take-over {DROP}")
    if found.mark:
        put("If each of these records is of a run of yours that has not ended, and was written last at a time when that ran:")
        put(f"  walferry own-root --take-over {KEEP} --shown {found.mark}")
    else:
        put("  … They are more than can be kept")
    return STUCK
