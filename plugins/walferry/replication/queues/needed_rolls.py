"""Decides which RegionServers have to begin new WALs for a batch. Otherwise each idle server would begin 288 of them a day.

A server needs no roll if it has written nothing since its last roll that a managed peer may want. Its open WAL cannot show that:
on HDFS other clients see a length of 0, however much was written, and hdfs-native reads nothing of the last block. So each server
is asked for the numbers that it keeps for its regions (AdminService.GetRegionLoad):

    write_requests_count    counted before an edit is written to the WAL; 0 when the region is opened
    complete_sequence_id    of the last flush since the region was opened
    storefiles              one more after the flush that closes a region

Only regions of tables that a managed peer may want are compared: tables with a replicated family that a peer's choice contains.
HBase's own entries in an idle WAL (markers of flushes, compactions and regions) are not counted.

    <root>/rolls/<cluster>    {server: {numbers, first_ms, last_ms, quiet_ms}} as JSON: a digest of them at its last rolls

A server is rolled unless its numbers are the same as at its last rolls, the first and the last of which were some time apart. One
roll is not enough: an edit may be counted before it and be written after it. So the batch after a server's last edit rolls the
server once more. Overlapping runs may write the record in any order, because each wrote what it had read before its own roll.

If anything is not known, servers are rolled: all of them if the Master does not describe the tables, or if a peer cannot be read;
and each server that does not answer, or is older than the call (HBase 1). Equal numbers hide an edit only if its region or table
came and went between two batches. It then waits until HBase rolls the WAL itself, after an hour at the latest
(hbase.regionserver.logroll.period). That roll also lets batches finish the WALs of servers that write only what no peer wants.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import read
from walferry.base.zk.records import decode_or_none, encode, update
from walferry.hbase.cluster import live_servers
from walferry.hbase.cluster import master as active_master
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import master
from walferry.hbase.rpc.admin import region_loads
from walferry.replication.filters.rules import Families, PeerTables
from walferry.replication.queues.rolling import ask_each
from walferry.replication.source.agreement import is_hbase_1
from walferry.replication.source.peers import read_peers
from walferry.replication.source.session import Session

CALLS_SECONDS = 10.0  # for all servers together; servers that do not answer are rolled
DIGEST_BYTES = 8
APART_MS = 30_000  # within which a counted edit is written: it may wait for its row's lock (hbase.rowlock.wait.duration)

log = logging.getLogger(__name__)

MayWant = Callable[[bytes], bool]  # whether a managed peer may want edits of a table


@dataclass(frozen=True, slots=True)
class ServerRolls:
    """What batches know of a server's last rolls. `numbers` is a digest of its numbers; times are in ms since the epoch."""

    numbers: str
    first_ms: int  # when they were read before the first roll at these numbers
    last_ms: int  # the same for the last one
    quiet_ms: int = 0  # when it was last seen to need no roll

    def suffice(self, now: str) -> bool:
        """Return whether a server whose numbers are `now` needs no further roll."""
        return self.numbers == now and self.last_ms - self.first_ms >= APART_MS


@dataclass(frozen=True)
class RollChoice:
    """The live servers that a batch has to roll, and those that it need not."""

    needed: frozenset[ServerName]
    spared: frozenset[ServerName] = frozenset()
    numbers: Mapping[ServerName, str] = field(default_factory=dict)  # digests, as far as known
    at_ms: int = 0  # when they were asked, in ms since the epoch


def choose(session: Session) -> RollChoice:
    """Choose the servers to roll, by the numbers that they have before the roll. Raises WalferryError."""
    at_ms = int(time.time() * 1000)
    servers = live_servers(session.zk, session.nodes)
    try:
        if is_hbase_1(session):
            return RollChoice(servers)
        may_want = wanted_tables(session)
    except WalferryError as error:
        log.warning("all RegionServers are rolled, because it is not known which tables are wanted: %s", error)
        return RollChoice(servers)

    def ask(server: ServerName, left: float) -> str:
        return digest(region_loads(server, login=session.source.login, timeout=left), may_want)

    numbers, failures = ask_each(servers, ask, CALLS_SECONDS)
    for server, why in sorted(failures.items()):
        log.info("%s is rolled, because it is not known what it has written: %s", server, why)
    before = read_rolls(session)
    known = {server: before[str(server)] for server in numbers if str(server) in before}
    spared = frozenset(server for server, rolls in known.items() if rolls.suffice(numbers[server]))
    return RollChoice(servers - spared, spared, numbers, at_ms)


def note(session: Session, choice: RollChoice, failed: Collection[str]) -> None:
    """Note that the choice's servers were rolled, except those that `failed`. Servers that are gone are forgotten.

    Raises Contention, ConnectError.
    """
    live = {str(server) for server in choice.needed | choice.spared}
    spared = set(map(str, choice.spared))
    rolled = {str(server): now for server, now in choice.numbers.items() if server in choice.needed and str(server) not in failed}
    at_ms = choice.at_ms

    def noted(value: bytes | None) -> bytes:
        rolls = {server: known for server, known in _decoded(value).items() if server in live}
        for server, known in rolls.items():
            if rolled.get(server) == known.numbers:
                rolls[server] = replace(known, first_ms=min(known.first_ms, at_ms), last_ms=max(known.last_ms, at_ms))
            elif server in rolled:
                rolls[server] = ServerRolls(rolled[server], at_ms, at_ms)
            elif server in spared:
                rolls[server] = replace(known, quiet_ms=max(known.quiet_ms, at_ms))
        new = {server: ServerRolls(now, at_ms, at_ms) for server, now in rolled.items() if server not in rolls}
        return encode({server: asdict(known) for server, known in sorted((rolls | new).items())})

    if rolled or choice.spared:
        update(session.zk, session.own.rolls, noted)


def read_rolls(session: Session) -> dict[str, ServerRolls]:
    """Return what batches know of the servers, by name. Empty if there is no such record. Raises ConnectError."""
    znode = read(session.zk, session.own.rolls)
    return _decoded(znode.value if znode else None)


def wanted_tables(session: Session) -> MayWant:
    """Return whether a managed peer may want edits of a table, by its name as HBase writes it.

    An unknown table may be wanted: it is new, or hidden from our user. Paused peers count: they want the edits later. Raises
    WalferryError.
    """
    listing = read_peers(session)
    if listing.problems:
        raise listing.problems[0]
    choices = [PeerTables.of_peer(peer) for peer in listing.peers if peer.managed]
    at = active_master(session.zk, session.nodes)
    with master.connect(at, login=session.source.login, timeout=CALLS_SECONDS) as connection:
        replicated = {table.encode(): families for table, families in master.families_in_wals(connection).items()}

    def may_want(table: bytes) -> bool:
        families = replicated.get(table)
        if families is None:
            return any(choice.families_of(table)[0] not in (Families.NONE, Families.SYSTEM) for choice in choices)
        return any(choice.wants(table, family) for choice in choices for family in families)

    return may_want


def digest(loads: Collection[pb.RegionLoad], may_want: MayWant) -> str:
    """Return a digest of the numbers of a server's regions that may be wanted."""
    wanted: dict[bytes, bool] = {}
    digested = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for load in sorted(loads, key=lambda load: load.region_specifier.value):
        region = load.region_specifier.value
        table = region.partition(b",")[0]  # a table's name cannot contain a comma
        if table not in wanted:
            wanted[table] = may_want(table)
        if wanted[table]:
            numbers = load.write_requests_count, load.complete_sequence_id, load.storefiles
            digested.update(b"%d,%b,%d,%d,%d;" % (len(region), region, *numbers))
    return digested.hexdigest()


def _decoded(value: bytes | None) -> dict[str, ServerRolls]:
    """Return the record. One that cannot be read counts as empty: then all servers are rolled."""
    return (decode_or_none(dict[str, ServerRolls], value) if value is not None else None) or {}
