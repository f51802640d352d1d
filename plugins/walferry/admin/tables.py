"""The tables and families of a peer: reads them as operators write them, and checks that they exist on both sides.

    table   namespace:table                 all families of it
    table=cf,cf   namespace:table=cf,cf
    table:cf,cf   namespace:table:cf,cf     as HBase's own strings have it; several of them split by semicolons
    namespace.table   namespace.table:cf    as HBase's shell prints it
    { "namespace:table" => ["cf", "cf"], "table" => [] }     as HBase's shell takes it

`a:b` may mean family b of table a, or table b of namespace a; `a.b` may mean table b of namespace a, or table a.b. The source's
tables decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from walferry.base.errors import WalferryError
from walferry.hbase.names import TABLE, without_default_namespace
from walferry.hbase.rpc import master
from walferry.hbase.rpc.connection import Connection

FORMS = "[namespace:]table[=family,family], table:family,family, or what HBase's shell takes"
_FAMILY = re.compile(r"""[^\s:/,;=\[\]{}"']+""")
_HASH_ENTRY = re.compile(r"""\s*,?\s*(["'])(?P<table>[^"']+)\1\s*=>\s*\[(?P<families>[^\[\]]*)\]\s*""")


@dataclass(frozen=True)
class TableFamilies:
    """A table, "table" or "namespace:table", and the chosen families; none means all families."""

    table: str
    families: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """One table as an operator wrote it, with all its possible meanings."""

    text: str
    readings: tuple[TableFamilies, ...]


class UnclearTable(WalferryError):
    """A name has no meaning among the source's tables, or more than one."""

    retry_helps = False


def parse_tables(text: str) -> list[Asked]:
    """Return the tables of one argument. Raises ValueError."""
    if "=>" in text:
        return _parse_hash(text)
    entries = [entry.strip() for entry in text.split(";") if entry.strip()]
    if not entries:
        raise _unreadable(text)
    return [Asked(entry, _readings(entry)) for entry in entries]


def table_name(table: str) -> tuple[str, str]:
    """Return namespace and name of "table" or "namespace:table". Raises ValueError."""
    match = TABLE.fullmatch(table)
    if not match:
        raise ValueError(f"{table!r} is not a table; it should be [namespace:]table")
    return match["namespace"] or "default", match["name"]


def resolve(asked: Sequence[Asked], source: Connection) -> dict[str, tuple[str, ...]]:
    """Return tables with their families, as the source's tables decide. Raises UnclearTable, RpcError."""
    several = {reading.table for each in asked if len(each.readings) > 1 for reading in each.readings}
    there = master.replicated_families(source, several)
    meant: dict[str, tuple[str, ...]] = {}
    for each in asked:
        reading = _meant(each, there)
        if reading.table in meant:
            raise UnclearTable(f"table {reading.table} is named twice: name it once, with all of its families that are wanted")
        meant[reading.table] = reading.families
    return meant


def missing(
    source: Connection, peer_cluster: Connection, namespaces: Collection[str], table_cfs: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return why edits of these namespaces and tables would not arrive, a reason each. Raises RpcError."""
    at_source, at_peer_cluster = (master.replicated_families(side, table_cfs.keys()) for side in (source, peer_cluster))
    sides = {"source": source, "peer cluster": peer_cluster}
    lines = [
        f"there is no namespace {namespace} at the {side}"
        for namespace in namespaces
        for side, connection in sides.items()
        if not master.has_namespace(connection, namespace)
    ]
    for table, families in table_cfs.items():
        lines += _missing_at_source(table, families, at_source.get(table))
        scopes = at_source.get(table, {})
        lines += _missing_at_peer_cluster(
            table, families or [f for f, global_ in scopes.items() if global_], at_peer_cluster.get(table)
        )
    return lines


def missing_at_source(source: Connection, namespaces: Collection[str], table_cfs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return why the source has no edits of these namespaces and tables to replicate, a reason each. Raises RpcError."""
    found = master.replicated_families(source, table_cfs.keys())
    lines = [f"there is no namespace {name} at the source" for name in namespaces if not master.has_namespace(source, name)]
    return lines + [line for table, each in table_cfs.items() for line in _missing_at_source(table, each, found.get(table))]


def missing_of_all(source: Connection, peer_cluster: Connection, wants: Callable[[str, str], bool]) -> list[str]:
    """Return why edits of user tables would not arrive, for families that `wants(table, family)`. Raises RpcError."""
    replicated = {
        table: [family for family, global_ in sorted(families.items()) if global_ and wants(table, family)]
        for table, families in sorted(master.replicated_families(source).items())
    }
    wanted = {table: families for table, families in replicated.items() if families}
    at_peer_cluster = master.replicated_families(peer_cluster, wanted.keys())
    return [
        line
        for table, families in wanted.items()
        for line in _missing_at_peer_cluster(table, families, at_peer_cluster.get(table))
    ]


def _missing_at_source(table: str, families: Sequence[str], there: Mapping[str, bool] | None) -> list[str]:
    if there is None:
        return [f"there is no table {table} at the source"]
    advice = "so none of its edits is replicated (hbase shell: alter '{}', NAME => '{}', REPLICATION_SCOPE => 1)"
    if not families and not any(there.values()):
        family = min(there, default="cf")
        return [f"no family of table {table} has REPLICATION_SCOPE 1 at the source, {advice.format(table, family)}"]
    lines = [f"table {table} has no family {f} at the source, only {', '.join(there)}" for f in families if f not in there]
    local = [f for f in families if there.get(f) is False]
    return lines + [
        f"family {f} of table {table} has REPLICATION_SCOPE 0 at the source, {advice.format(table, f)}" for f in local
    ]


def _missing_at_peer_cluster(table: str, families: Sequence[str], there: Mapping[str, bool] | None) -> list[str]:
    if there is None:
        return [f"there is no table {table} at the peer cluster"]
    return [f"table {table} has no family {f} at the peer cluster, only {', '.join(there)}" for f in families if f not in there]


def _meant(asked: Asked, there: Mapping[str, Mapping[str, bool]]) -> TableFamilies:
    if len(asked.readings) == 1:
        return asked.readings[0]
    fitting = [r for r in asked.readings if r.table in there and set(r.families) <= set(there[r.table])]
    if len(fitting) == 1:
        return fitting[0]
    either = " or ".join(map(_in_words, asked.readings))
    clear = " or ".join(f"{r.table}={','.join(r.families or there.get(r.table) or ('<its families>',))}" for r in asked.readings)
    if fitting:
        raise UnclearTable(f"{asked.text!r} may be {either}, and the source has both: write {clear}")
    its = {reading.table for reading in asked.readings}
    has = "".join(f"; table {table} has {', '.join(families)}" for table, families in there.items() if table in its)
    raise UnclearTable(f"{asked.text!r} may be {either}, but the source has neither{has}. If it is to come later, write {clear}")


def _in_words(reading: TableFamilies) -> str:
    namespace, name = table_name(reading.table)
    table = f"table {name}" if namespace == "default" else f"table {name} of namespace {namespace}"
    return f"family {', '.join(reading.families)} of {table}" if reading.families else table


def _parse_hash(text: str) -> list[Asked]:
    body, asked, at = text.strip().removeprefix("{").removesuffix("}"), [], 0
    while at < len(body) and (entry := _HASH_ENTRY.match(body, at)):
        listed = ",".join(name.strip().strip("\"'") for name in entry["families"].split(","))
        families = _families(listed, text) if listed else ()
        asked.append(Asked(entry["table"], (_reading(entry["table"], families, text),)))
        at = entry.end()
    if at < len(body):
        raise _unreadable(text)
    return asked


def _readings(entry: str) -> tuple[TableFamilies, ...]:
    """Return the possible meanings of one table's text. HBase's own reading of such a string comes first."""
    table, equals, listed = entry.partition("=")
    if equals:
        return (_reading(table.strip(), _families(listed, entry), entry),)
    parts = [part.strip() for part in entry.split(":")]
    if len(parts) == 3:
        return (_reading(f"{parts[0]}:{parts[1]}", _families(parts[2], entry), entry),)
    if len(parts) > 3:
        raise _unreadable(entry)
    families = _families(parts[1], entry) if len(parts) == 2 else ()
    readings = [_reading(parts[0], families, entry)]
    if parts[0].count(".") == 1 and TABLE.fullmatch(parts[0].replace(".", ":")):
        readings.append(_reading(parts[0].replace(".", ":"), families, entry))
    if len(families) == 1 and TABLE.fullmatch(entry):
        readings.append(_reading(entry, (), entry))
    return tuple(readings)


def _families(listed: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in listed.split(","))
    if not all(_FAMILY.fullmatch(name) for name in names):
        raise _unreadable(text)
    return names


def _reading(table: str, families: tuple[str, ...], text: str) -> TableFamilies:
    if not TABLE.fullmatch(table):
        raise _unreadable(text)
    return TableFamilies(without_default_namespace(table), families)


def _unreadable(text: str) -> ValueError:
    return ValueError(f"{text!r} is not {FORMS}")
