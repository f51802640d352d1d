"""Brings the tables of state of a lake up to date: the job, from its start to its end."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar

from walferry.base.errors import WalferryError, text_of
from walferry.base.jobs import Backend, BackendFailed, JobOutcome, Tell
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import one_line
from walferry.hbase.cluster import master as active_master
from walferry.hbase.names import without_default_namespace
from walferry.hbase.rpc import master
from walferry.load.copied_tables import attribute, has_new_version_behavior
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session, open_session
from walferry.replication.source.source_job import SourceJob
from walferry.shipping.lake.catalog import Lake
from walferry.state_tables.hbase_rules import FOREVER_SECONDS, NEVER, FamilyRules
from walferry.state_tables.table_merge import StateOutcome, TableMerge

MAX_CHARS = 300


@dataclass(frozen=True, kw_only=True)
class MergeRun(SourceJob):
    """A request to bring the states of `tables` up to date; without any, those of all tables with changes that the peer gets."""

    kind: ClassVar[str] = "merge"
    nothing_done: ClassVar[str] = "nothing is merged"

    tables: tuple[str, ...] = ()

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Merge, table by table; one that fails does not stop the others. Raises WalferryError if it cannot begin."""
        with open_session(self.source, look_only=True) as session:
            peer = read_peer(session, self.peer_id)
            if not peer.lake:
                raise LakeError(f"peer {peer.id} goes to {peer.target}, not into a lake", "Only a lake has tables of state")
            lake = Lake.of(session, peer, peer.lake)
            names = self._names(session, peer, lake, say)
            outcomes = [self._merged(session, lake, name, on, say) for name in names]
        problems = [f"table {each.table}: {each.problem}" for each in outcomes if each.problem]
        return JobOutcome(errors=problems, failed=bool(problems), result=json.dumps([asdict(each) for each in outcomes]))

    def _names(self, session: Session, peer: Peer, lake: Lake, say: Tell) -> list[str]:
        """Return the tables to merge: those asked for, or those of the source that have changes. Raises LakeError."""
        choice = PeerTables.of_peer(peer)
        if asked := sorted(set(map(without_default_namespace, self.tables))):
            if odd := [name for name in asked if not choice.has(name.encode())]:
                raise LakeError(f"peer {peer.id} does not get table {odd[0]}", "Correct the tables of the run")
            return asked
        with master.connect(active_master(session.zk, session.nodes), login=session.source.login) as connection:
            at_source = {name.casefold(): name for name in master.table_schemas(connection)}
        found = list[str]()
        for name in sorted(each for each in lake.listed() if choice.has(each.encode())):
            known = at_source.get(name.casefold())  # some catalogs ignore capitals
            if known is None:
                say(f"table {name}: the source has it no more, so its state stays as it is")
            else:
                found.append(known)
        return found

    def _merged(self, session: Session, lake: Lake, name: str, on: Backend, say: Tell) -> StateOutcome:
        """Bring one state up to date. Raises BackendFailed."""
        try:
            found = TableMerge(lake, name, partial(_rules, session, name), self.run_id, on, say).run()
        except BackendFailed:
            raise
        except WalferryError as error:
            say(f"table {name}: {error}")
            return StateOutcome(name, problem=text_of(error))
        say(f"table {name}: {found.changes:,} changes read, {found.cells:,} cells in {found.files:,} new files")
        return found


def _rules(session: Session, name: str) -> tuple[FamilyRules, ...]:
    """Return the rules of a table's families now, sorted by name. Raises LakeError, RpcError, ConnectError."""
    with master.connect(active_master(session.zk, session.nodes), login=session.source.login) as connection:
        schema = master.table_schemas(connection, [name]).get(name)
    if schema is None:
        raise LakeError(
            f"the source has no table {name}, so its rules of versions and TTL are not known",
            "Its table of state stays as it is. To merge the others, name them",
        )
    if new := [family.name for family in schema.column_families if has_new_version_behavior(family)]:
        raise LakeError(
            f"family {new[0].decode(errors='replace')} has NEW_VERSION_BEHAVIOR, by whose rules no state is made",
            "Leave the table out: name the others",
        )
    return tuple(sorted(map(_rules_of, schema.column_families), key=lambda each: each.family))


def _rules_of(family: pb.ColumnFamilySchema) -> FamilyRules:
    def number(name: bytes, default: int) -> int:
        text = attribute(family, name).decode(errors="replace")
        try:
            return int(text) if text else default
        except ValueError:
            shown = family.name.decode(errors="replace")
            raise LakeError(
                f"family {shown}: its {name.decode()} is {one_line(text, MAX_CHARS)!r}, and should be a number"
            ) from None

    seconds = number(b"TTL", FOREVER_SECONDS)
    ttl = NEVER if seconds >= FOREVER_SECONDS or seconds < 0 else seconds * 1000
    return FamilyRules(family.name, max(1, number(b"VERSIONS", 1)), ttl, max(0, number(b"MIN_VERSIONS", 0)))
