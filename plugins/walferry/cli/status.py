"""`walferry status`, `walferry queues` and `walferry metrics`: lag, backlog, the runs that hold queues, and findings.

`walferry queues set-position` sets where the shipping of a queued WAL goes on.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from walferry.base.amounts import count, duration
from walferry.base.errors import WalferryError
from walferry.base.texts import lines_only
from walferry.cli import options
from walferry.cli.show import BAD, ERROR, GOOD, STUCK, WARNING, WELL, Cell, ShownTable, fields_of, plain, put, show, table, tell
from walferry.cli.source import Chosen
from walferry.replication.source.cluster import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from walferry.base.findings import Finding
    from walferry.observe.status.model import GroupStatus, PeerStatus, QueueStatus, SourceStatus
    from walferry.shipping.repositioning import PositionChange

LOOK_SECONDS = 8.0  # for files and peer clusters; a value that takes longer is shown as unknown
_PEERS_HEAD = (
    "PEER", "SHIPPED BY", "CLUSTER", "LAG", "VALID THROUGH", "WALS", "LEFT", "RATE", "DONE IN", "LAST SUCCESS", "FINDINGS"
)  # fmt: skip
_QUEUES_HEAD = ("PEER", "KIND", "QUEUE", "WAL GROUP", "LAG", "WALS", "LEFT", "OLDEST WAL", "POSITION", "HELD BY", "PROBLEM")
_FIGURES = ("LAG", "WALS", "LEFT", "RATE", "DONE IN", "POSITION")
_STATUS = """\
Exit status: 0 if all is well; 1 if the source cannot be read; 2 for wrong arguments; 3 if something is stuck or behind.
"""
OLD_WALS_SECONDS = 60.0


@click.command(epilog=_STATUS)
@click.argument("peer_ids", nargs=-1, metavar="[PEER]...")
@click.option(
    "--max-lag", type=options.SECONDS, metavar="SECONDS",
    help="A managed peer is behind if its oldest edit may have waited for longer than this "
    "(default: the peer's own setting max_lag; without it no age is too large).",
)  # fmt: skip
@options.shown
def status(chosen: Chosen, peer_ids: tuple[str, ...], max_lag: float | None, as_json: bool, watch: float | None) -> int:
    """Show how replication stands.

    For these peers, or for all, it shows the age of the oldest edit that is not shipped, the backlog and when it will be shipped,
    whether the peer cluster can be reached, and what is wrong. It changes nothing. The status is 3 if a managed peer is stuck,
    failing or behind, or its peer cluster is down, or if queues of peers that do not exist are left. Paused peers do not count
    for that.
    """
    look = _looker(chosen, LOOK_SECONDS)
    return show(lambda: _status_view(look(), peer_ids, max_lag), as_json=as_json, watch=watch)


class _Queues(click.Group):
    """A command that takes peers, and also has a subcommand: no peer's id has a dash."""

    allow_interspersed_args = True  # options may stand after the peers, as with any command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in self.commands:
            ctx.args = args
            return args
        if args and "-" in args[0]:
            unknown = click.exceptions.NoSuchCommand(args[0], possibilities=self.commands, ctx=ctx)
            if unknown.possibilities:
                raise unknown
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if not ctx.args:
            return click.Command.invoke(self, ctx)
        name, *rest = ctx.args
        with self.commands[name].make_context(name, rest, parent=ctx) as below:
            return below.command.invoke(below)


@click.group(cls=_Queues, invoke_without_command=True, epilog=_STATUS)
@click.argument("peer_ids", nargs=-1, metavar="[PEER]...")
@options.shown
def queues(chosen: Chosen, peer_ids: tuple[str, ...], as_json: bool, watch: float | None) -> int:
    """Show the queues, a line for each WAL group.

    It shows the queues of these peers, or of all, also of peers that do not exist any more. A queue is Normal, Normal of a dead
    server, or Recovered. Each line shows its name as `walferry drain` takes it, with the server under which it lies and the dead
    servers from which it came, the oldest WAL and its position, the backlog, and the run that holds it. The command changes
    nothing. The status is 3 if an entry of a queue makes no sense, or the last run that worked on a group has failed.
    """
    look = _looker(chosen, peer_clusters_seconds=0.0)
    return show(lambda: _queues_view(look(), peer_ids), as_json=as_json, watch=watch)


@queues.command("set-position")
@click.argument("peer_id", metavar="PEER")
@click.argument("wal", metavar="WAL")
@click.argument("position", type=click.IntRange(0, (1 << 63) - 1), metavar="BYTE")
@click.option("--dry-run", is_flag=True, help="Only show what would be shipped again, or left out.")
@click.option("--leave-out", is_flag=True, help="Leave entries out that are not shipped yet: the peer cluster never gets them.")
@click.pass_obj
def set_position(chosen: Chosen, peer_id: str, wal: str, position: int, dry_run: bool, leave_out: bool) -> int:
    """Set where the shipping of a queued WAL goes on.

    WAL is its name, or its file as errors name it. The position must be the start of an entry, or 0 for the whole file. The
    command holds the lease of the WAL's group while it sets the position, so no run ships the group meanwhile. Edits that the
    peer cluster has already are shipped again, which changes nothing there.
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


def _looker(chosen: Chosen, peer_clusters_seconds: float) -> Callable[[], SourceStatus]:
    """Return a function that looks at the source, and waits `peer_clusters_seconds` for peer clusters. Its looks share reads of
    files."""
    from walferry.observe.status.statuses import Statuses

    statuses = Statuses(LOOK_SECONDS, peer_clusters_seconds)
    return lambda: statuses.of(chosen.read())


def _status_view(found: SourceStatus, peer_ids: Sequence[str], max_lag: float | None) -> ShownTable:
    if found.unreachable is not None:
        return _unreachable(found)
    from walferry.observe.status.findings import counts, of_peer, orphaned

    peers = _chosen(found, peer_ids)
    findings = {peer.id: list(of_peer(peer, max_lag)) for peer in peers}
    without_peer = [] if peer_ids else list(orphaned(found))
    bad = any(findings[peer.id] and counts(peer) for peer in peers) or bool(without_peer)
    values = [{**fields_of(peer), "findings": [each.to_json() for each in findings[peer.id]]} for peer in peers]
    for value in values:
        del value["queues"]  # `walferry queues --json` shows them
    source = {name: getattr(found, name) for name in ("at_ms", "live_servers", "dead_servers", "regions_in_transition")}
    queues = [] if peer_ids else found.orphaned or ()
    shown = {**source, "well": not bad, "peers": values, "orphaned": queues, "problems": found.problems}
    return ShownTable(shown, lambda: _status_text(found, peers, findings, without_peer), STUCK if bad else WELL, found.problems)


def _unreachable(found: SourceStatus) -> ShownTable:
    why = found.unreachable or ""
    return ShownTable({"at_ms": found.at_ms, "unreachable": why}, lambda: "Nothing is known of the source.", ERROR, [why])


def _chosen(found: SourceStatus, peer_ids: Sequence[str]) -> list[PeerStatus]:
    """Return the chosen peers. Raises Refused."""
    from walferry.admin.peers import Refused

    if found.peers is None:
        why = next(iter(found.problems), "they are not there")
        raise Refused(f"the source's peers cannot be read: {why}", "`walferry check` says more")
    known = {peer.id: peer for peer in found.peers}
    if missing := [peer_id for peer_id in peer_ids if peer_id not in known]:
        there = ", ".join(known) or "there are none"
        raise Refused(f"peer {', '.join(missing)} does not exist at the source", f"Its peers: {there}")
    return [known[peer_id] for peer_id in peer_ids] if peer_ids else list(found.peers)


def _status_text(
    found: SourceStatus, peers: Sequence[PeerStatus], findings: Mapping[str, Sequence[Finding]], others: Sequence[Finding]
) -> str:
    rows = [_peer_row(peer, "; ".join(each.text for each in findings[peer.id])) for peer in peers]
    shown = table(_PEERS_HEAD, rows, _FIGURES) if rows else "There is no peer."
    return "\n".join([*plain([_servers(found)]), shown, *plain(each.line for each in others)])


def _servers(found: SourceStatus) -> str:
    live = "live RegionServers: unknown" if found.live_servers is None else count(len(found.live_servers), "live RegionServer")
    parts = [live]
    if found.dead_servers:
        parts.append(f"queues of {count(len(found.dead_servers), 'dead RegionServer')} to ship")
    if found.regions_in_transition:
        parts.append(f"{count(found.regions_in_transition, 'region')} in transition")
    return ", ".join(parts)


def _peer_row(peer: PeerStatus, findings: str) -> list[str | Cell]:
    from walferry.observe.status import words

    unknown = Cell("not asked") if peer.managed is False else Cell(words.UNKNOWN, WARNING)
    peer_cluster = {True: Cell("reachable", GOOD), False: Cell("down", BAD), None: unknown}[peer.peer_cluster.reachable]
    success = "never" if peer.last_success_ms is None else f"{duration(max(0.0, time.time() - peer.last_success_ms / 1000))} ago"
    colour = WARNING if peer.paused or not peer.managed else BAD
    return [
        peer.id, _who(peer), peer_cluster, words.lag(peer.replicationLag), words.valid_through(peer.valid_through_ms),
        words.UNKNOWN if peer.wals_left is None else f"{peer.wals_left:,}", words.left(peer.bytes_left), words.rate(peer.pace),
        words.time_left(peer.pace), success if peer.managed else "", Cell(findings, colour),
    ]  # fmt: skip


def _who(peer: PeerStatus) -> str:
    if peer.state is None:
        return "unknown"
    if not peer.managed:
        return "HBase" if peer.state == "ENABLED" else f"nobody ({peer.state})"
    return "nobody (paused)" if peer.paused else "Walferry, now" if peer.peer_lock else "Walferry"


def _queues_view(found: SourceStatus, peer_ids: Sequence[str]) -> ShownTable:
    if found.unreachable is not None:
        return _unreachable(found)
    chosen = [queue for peer in _chosen(found, peer_ids) for queue in peer.queues or ()]
    if not peer_ids:
        chosen += found.orphaned or ()
    bad = any(queue.problems or any(group.error or group.oldest.problem for group in queue.groups) for queue in chosen)
    rows = [_queue_row(queue, group) for queue in chosen for group in queue.groups]
    problems = [problem for queue in chosen for problem in queue.problems]
    shown = {"well": not bad, "queues": chosen, "problems": found.problems}
    empty = "No WALs are queued."
    return ShownTable(shown, lambda: table(_QUEUES_HEAD, rows, _FIGURES) if rows else empty, STUCK if bad else WELL, problems)


def _queue_row(queue: QueueStatus, group: GroupStatus) -> list[str | Cell]:
    from walferry.observe.status import words

    kind = str(queue.kind) if queue.live or queue.kind == "Recovered" else f"{queue.kind} (dead)"
    position = words.UNKNOWN if group.oldest.position is None else f"{group.oldest.position:,}"
    return [
        queue.peer_id, kind, f"{queue.server}/{queue.queue_id}", group.group, words.lag(group.replicationLag),
        f"{group.wals_left:,}", words.left(group.bytes_left), group.oldest.name, position,
        group.holder.name if group.holder else "", Cell(group.oldest.problem or group.error or "", BAD),
    ]  # fmt: skip


def _put(change: PositionChange, done: str) -> None:
    before = "a position that cannot be read" if change.before is None else f"byte {change.before}"
    put(f"the position of {change.queued.name.text} {done} from {before} to byte {change.to}, of {change.size} bytes")
    put(f"{change.again:,} of {change.entries:,} entries are shipped again, {change.left_out:,} are left out")


class NotWritten(WalferryError):
    """The file of metrics cannot be written."""


@click.command(epilog="Exit status: 0 if the source was read; 1 if it cannot be; 2 for wrong arguments.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write to this file instead, at once as a whole: for node_exporter's textfile collector its name ends in .prom.",
)  # fmt: skip
@click.option("--old-wals/--no-old-wals", default=True, help="List oldWALs, too, which costs a call of the file system.")
@click.pass_obj
def metrics(chosen: Chosen, output: Path | None, old_wals: bool) -> int:
    """Print how replication stands in Prometheus' text format.

    It changes nothing in the cluster and listens on no port. docs/monitoring.md describes each metric. If the source cannot be
    read, `walferry_source_up` is 0, and the other metrics are left out.
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
    """Replace the file by the text. A reader sees the old file or the whole new file. Raises NotWritten."""
    beside = output.with_name(f".{output.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(output)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise NotWritten(f"{output} cannot be written: {error.strerror}") from error
