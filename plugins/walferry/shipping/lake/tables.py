"""The tables of changes that a batch may write to, by the names of HBase's tables.

They are read once, before the tasks begin: what they have already is left out. A table that cannot be used, such as one with
other columns, is refused: only the WAL groups with edits of it stop.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from pyiceberg.table import Table

from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import master
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks.iceberg.commits import FirstCopy, Positions, check_copy_ended, positions_of
from walferry.replication.sinks.iceberg.data_files import Target
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.source.session import Session
from walferry.shipping.lake.catalog import Lake, identifier


@dataclass(frozen=True)
class LakeTables:
    """The tables of changes that can be used, and why others cannot."""

    lake: Lake
    open: dict[str, Table] = field(default_factory=dict)
    seen: dict[str, Positions] = field(default_factory=dict)  # up to where the open ones had all edits
    refused: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lake: Lake, session: Session, peer: Peer) -> LakeTables:
        """Return the tables of changes that exist, of tables that the peer gets or has got. Raises LakeError, WalferryError.

        Tables that HBase has no more may still have edits in WALs. Others that do not exist are made once edits of them are met.
        """
        tables, there, choice = cls(lake), lake.listed(), PeerTables.of_peer(peer)
        folded = {name.casefold() for name in there}
        wanted = [name for name in _wanted(session, choice) if name.casefold() in folded]  # some catalogs ignore capitals
        known = {name.casefold() for name in wanted}
        for name in sorted({*wanted, *(name for name in there if name.casefold() not in known and choice.has(name.encode()))}):
            tables.add(name)
        return tables

    def add(self, name: str, *, being_copied: bool = False) -> None:
        """Open a table of changes, or make it; if that fails, note why. Only a first copy itself may use one without its end."""
        try:
            table = self.lake.make(name)
            seen = positions_of(table, self.lake.feed)
            if not being_copied:
                check_copy_ended(table, seen.copied)
        except LakeError as error:
            self.refused[name] = str(error)
            return
        twin = next((other for other, each in self.open.items() if each.metadata.table_uuid == table.metadata.table_uuid), None)
        if twin is None:
            self.open[name], self.seen[name] = table, seen
        else:
            both = f"tables {twin} and {name} have one table of changes, {'.'.join(identifier(name))}"
            self.refused[name] = f"{both}: the catalog ignores capitals. Let two peers with table-cfs feed two catalogs"

    def target(self, name: str) -> Target:
        """Return what tasks need to write files of an open table."""
        return Target.of(self.open[name], self.lake.mappings.get(name))

    def copied(self, oldest: int) -> dict[str, FirstCopy]:
        """Return the first copies of which WALs begun at `oldest` (ms since the epoch) or later may have edits, by table."""
        return {name: seen.copied for name, seen in self.seen.items() if seen.copied is not None and seen.copied.until >= oldest}

    @property
    def known(self) -> Collection[str]:
        """The names of all these tables."""
        return self.open.keys() | self.refused.keys()


def _wanted(session: Session, choice: PeerTables) -> list[str]:
    """Return the tables that the peer gets now; none if the source has no HMaster."""
    if session.source.master_absent:
        return []
    with master.connect(active_master(session.zk, session.nodes), login=session.source.login) as connection:
        families = master.families_in_wals(connection)
    return [name for name, each in families.items() if any(choice.wants(name.encode(), family) for family in each)]
