"""`walferry queues set-position`: where the shipping of a queued WAL goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from walferry.cli.show import WELL, put
from walferry.cli.source import Chosen

if TYPE_CHECKING:
    from walferry.shipping.repositioning import PositionChange


@click.command("set-position")
@click.argument("peer_id", metavar="PEER")
@click.argument("wal", metavar="WAL")
@click.argument("position", type=click.IntRange(0, (1 << 63) - 1), metavar="BYTE")
@click.option("--dry-run", is_flag=True, help="Only tell what would be shipped again, or left out.")
@click.option("--leave-out", is_flag=True, help="Leave entries out that are not shipped yet: the slave never gets them.")
@click.pass_obj
def set_position(chosen: Chosen, peer_id: str, wal: str, position: int, dry_run: bool, leave_out: bool) -> int:
    """Set where the shipping of a queued WAL goes on.

    WAL is its name, or its file as errors name it. The byte must be the start of an entry, or 0 for the whole file. It is set
    under the lease of the WAL's group, so no run ships it meanwhile. Entries that the slave has already are shipped again, which
    changes nothing there.
    """
    from walferry.base.users import user_name
    from walferry.replication.source.agreement import check_peer
    from walferry.replication.source.session import open_session
    from walferry.shipping.repositioning import look, set_position

    wal = wal.rpartition("/")[2]
    with open_session(chosen.read(), look_only=dry_run) as session:
        check_peer(session, peer_id, even_paused=True)
        if dry_run:
            _put(look(session, peer_id, wal, position), "would be set")
        else:
            holder = f"{user_name()}: queues set-position"
            _put(set_position(session, peer_id, wal, position, holder, leave_out=leave_out), "is set")
    return WELL


def _put(change: PositionChange, done: str) -> None:
    before = "a position that cannot be read" if change.before is None else f"byte {change.before}"
    put(f"the position of {change.queued.name.text} {done} from {before} to byte {change.to}, of {change.size} bytes")
    put(f"{change.again:,} of {change.entries:,} entries are shipped again, {change.left_out:,} are left out")
