"""Says which cells and parts of row keys a lake's tables have as typed columns: the catalogs of hbase-connectors, as they are.

    {"table": {"namespace": "shop", "name": "orders", "tableCoder": "PrimitiveType"},
     "rowkey": "customer:id",
     "columns": {
       "customer": {"cf": "rowkey", "col": "customer", "type": "string", "length": "8"},
       "id":       {"cf": "rowkey", "col": "id", "type": "bigint"},
       "amount":   {"cf": "d", "col": "a", "type": "double"}}}

A text has one such object, or a list of them, one for each table. `tableCoder` says who has written the values: PrimitiveType is
HBase's `Bytes.toBytes`, and Phoenix is Apache Phoenix. A `col` may have bytes as `\\x80\\x0B`, which Phoenix's qualifiers need.
Sources: HBaseTableCatalog, DefaultSource.parseRowKey and datasources.Utils of hbase-connectors; `tableCoder` of the Spark HBase
Connector, from which these come; Phoenix's PDataType and its subclasses.

hbase-connectors looks for the end of a string in the middle of a row key, and cannot tell it from a byte 0 of what follows. So
here such a part needs its `length`. In Phoenix's row keys a byte 0 ends it. hbase-connectors reads a `date` in the time zone of
its JVM, and here it is a day in UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from walferry.base.texts import one_line
from walferry.hbase.binary_text import from_binary_text, to_binary_text
from walferry.hbase.names import TABLE, without_default_namespace

MAX_MAPPINGS_BYTES = 65_536  # HBase keeps them in the peer's configuration
MOST_COLUMNS = 500  # of a table
MOST_PARTS = 32  # of a row key
MAX_LENGTH = 32_767  # of a row key
MAX_NAME_CHARS = 1000  # of a table
MAX_SHOWN_CHARS = 200
DEFAULT_NAMESPACE = "default"
ROW_KEY = "rowkey"  # as the family of a column: it is a part of the row key
UNREAD = "unread"  # the column that names the typed columns whose values cannot be read
OWN_NAMES = frozenset({
    "row", "family", "qualifier", "timestamp", "type", "value", "tags", "region", "sequence_id", "write_time", "wal_group", "wal",
    "offset", "cell", "cluster_ids", "expires", "write_time_day", UNREAD, ROW_KEY,
})  # fmt: skip

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")  # Iceberg's own begin with _
_TYPE = re.compile(r"([a-z_]+)(?:\((\d{1,4})(?:,(\d{1,4}))?\))?")
_TABLE_KEYS = {"namespace", "name", "tableCoder", "version"}
_COLUMN_KEYS = {"cf", "col", "type", "length"}


class Coder(StrEnum):
    """Who has written the values."""

    PRIMITIVE = "PrimitiveType"
    PHOENIX = "Phoenix"


# Bytes of each type; None: any number.
_SIZES: Mapping[Coder, Mapping[str, int | None]] = {
    Coder.PRIMITIVE: {
        "boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "float": 4, "double": 8, "date": 8, "timestamp": 8,
        "string": None, "binary": None, "decimal": None,
    },
    Coder.PHOENIX: {
        "boolean": 1, "tinyint": 1, "smallint": 2, "integer": 4, "bigint": 8, "float": 4, "double": 8,
        "unsigned_tinyint": 1, "unsigned_smallint": 2, "unsigned_int": 4, "unsigned_long": 8, "unsigned_float": 4,
        "unsigned_double": 8, "date": 8, "time": 8, "timestamp": 12, "unsigned_date": 8, "unsigned_time": 8,
        "unsigned_timestamp": 12, "varchar": None, "char": None, "binary": None, "varbinary": None, "decimal": None,
    },
}  # fmt: skip
_OTHER_NAMES: Mapping[Coder, Mapping[str, str]] = {
    Coder.PRIMITIVE: {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"},
    Coder.PHOENIX: {"byte": "tinyint", "short": "smallint", "int": "integer", "long": "bigint", "string": "varchar"},
}
_OF_LENGTH = ("char", "varchar", "binary")  # of a varchar it is the most
MAX_PRECISION = 38  # of decimals, in Iceberg


@dataclass(frozen=True)
class ValueType:
    """How a value is written. `size` is its number of bytes; None: any."""

    coder: Coder
    name: str
    size: int | None
    precision: int = 0  # of a decimal
    scale: int = 0

    def __str__(self) -> str:
        digits = f"({self.precision},{self.scale})" if self.precision else ""
        length = f"({self.size})" if self.size != _SIZES[self.coder][self.name] else ""
        return f"{self.coder} {self.name}{digits}{length}"

    @classmethod
    def parse(cls, coder: Coder, text: str) -> ValueType:
        """Parse a type, in Spark's words or Phoenix's. Raises ValueError."""
        shown, found = _shown(text), _TYPE.fullmatch("".join(text.lower().split()))
        name = _OTHER_NAMES[coder].get(found[1], found[1]) if found else ""
        if found is None or name not in _SIZES[coder]:
            raise ValueError(f"the type {shown} is none of {', '.join(_SIZES[coder])}")
        first, second = (int(digits) if digits else None for digits in found.groups()[1:])
        if name == "decimal":
            if first is None:
                raise ValueError("a decimal needs its precision and scale, such as decimal(18,2)")
            if not 0 < first <= MAX_PRECISION or (second or 0) > first:
                raise ValueError(f"the type {shown} should have a precision from 1 to {MAX_PRECISION}, and no larger scale")
            return cls(coder, name, None, first, second or 0)
        if second is not None or (first is not None and (name not in _OF_LENGTH or not first)):
            raise ValueError(f'the type {shown} has no such length or precision; a string\'s length is "length": "10"')
        return cls(coder, name, _SIZES[coder][name] if first is None or name == "varchar" else first)


@dataclass(frozen=True)
class KeyPart:
    """A part of the row key, and the typed column that shows it."""

    name: str
    type: ValueType


@dataclass(frozen=True)
class MappedColumn:
    """A column of HBase, and the typed column that shows its values."""

    name: str
    type: ValueType
    family: bytes
    qualifier: bytes


@dataclass(frozen=True)
class ColumnMapping:
    """The typed columns of one table ("table" or "namespace:table")."""

    table: str
    key: tuple[KeyPart, ...]
    columns: tuple[MappedColumn, ...]

    @property
    def sources(self) -> dict[str, str]:
        """What each typed column shows, for people and for comparisons."""
        parts = ", ".join(str(part.type) for part in self.key)
        found = {part.name: f"HBase: part {number} of the row key of {parts}" for number, part in enumerate(self.key, 1)}
        return found | {
            each.name: f"HBase: {to_binary_text(each.family)}:{to_binary_text(each.qualifier)}, {each.type}"
            for each in self.columns
        }


def parse_mappings(text: str) -> dict[str, ColumnMapping]:
    """Parse mappings, by table. An empty text has none. Raises ValueError."""
    if not text.strip():
        return {}
    if len(text.encode()) > MAX_MAPPINGS_BYTES:
        raise ValueError(f"the mappings have {len(text.encode()):,} bytes, and may have {MAX_MAPPINGS_BYTES:,}")
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("the mappings are not JSON: too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the mappings are not JSON: {error}") from None
    mappings, every = dict[str, ColumnMapping](), found if isinstance(found, list) else [found]
    for number, each in enumerate(every, 1):
        which = f"mapping {number} of {len(every)}" if len(every) > 1 else "the mapping"
        mapping = _mapping(_object(each, which), which)
        if mapping.table in mappings:
            raise ValueError(f"table {_name(mapping.table)} has two mappings")
        mappings[mapping.table] = mapping
    return mappings


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{_shown(next(name for name in names if names.count(name) > 1))} is there twice")
    return found


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {_shown(value)}, and should be a JSON object")
    return value


def _text(given: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if value is None:
        raise ValueError(f"{where} has no {name}")
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where} has {name} {_shown(value)}, which should be a text")
    return value


def _shown(value: object) -> str:
    return one_line(repr(value), MAX_SHOWN_CHARS)


def _name(table: str) -> str:
    return one_line(table, MAX_SHOWN_CHARS)


def _mapping(given: dict[str, Any], which: str) -> ColumnMapping:
    if odd := sorted(given.keys() - {"table", ROW_KEY, "columns"}):
        raise ValueError(f"{which} has {_shown(odd[0])}; mappings have table, rowkey and columns")
    if missing := [name for name in ("table", ROW_KEY, "columns") if name not in given]:
        raise ValueError(f"{which} has no {missing[0]}")
    table, coder = _table(_object(given["table"], f"{which}'s table"), f"{which}'s table")
    where = f"the mapping of table {_name(table)}"
    columns = _object(given["columns"], f"{where}: columns")
    if not 0 < len(columns) <= MOST_COLUMNS:
        raise ValueError(f"{where} has {len(columns):,} columns, and may have 1 to {MOST_COLUMNS}")
    parts, mapped, seen = dict[str, KeyPart](), list[MappedColumn](), set[str]()
    for name, each in columns.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{where}: {_shown(name)} is no name of a column: use A to Z, a to z, 0 to 9 and _, a letter first")
        if name.casefold() in OWN_NAMES:
            raise ValueError(f"{where}: a lake uses the name {name.lower()} itself. Give this column another name")
        if name.casefold() in seen:
            raise ValueError(f"{where}: there are two columns {name}, as most engines ignore capitals")
        seen.add(name.casefold())
        _add(f"{where}: column {name}", coder, name, _object(each, f"{where}: column {name}"), parts, mapped)
    places = [(each.family, each.qualifier) for each in mapped]
    if twice := next((each for each in mapped if places.count((each.family, each.qualifier)) > 1), None):
        raise ValueError(f"{where}: column {twice.name} is of the same column of HBase as another one")
    return ColumnMapping(table, _key(where, _text(given, ROW_KEY, where), parts), tuple(mapped))


def _table(given: dict[str, Any], where: str) -> tuple[str, Coder]:
    if odd := sorted(given.keys() - _TABLE_KEYS):
        raise ValueError(f"{where} has {_shown(odd[0])}; it may have {', '.join(sorted(_TABLE_KEYS))}")
    namespace, name = _text(given, "namespace", where, DEFAULT_NAMESPACE), _text(given, "name", where)
    if ":" in namespace + name:
        raise ValueError(f"{where} has name {_shown(name)} and namespace {_shown(namespace)}: neither of the two has a colon")
    table = without_default_namespace(f"{namespace}:{name}")
    if len(table) > MAX_NAME_CHARS or not TABLE.fullmatch(table):
        raise ValueError(f"{where}: {_shown(table)} is no name of a table")
    coder = _text(given, "tableCoder", where, Coder.PRIMITIVE)
    found = next((each for each in Coder if each.casefold() == coder.casefold()), None)
    if found is None:
        raise ValueError(f"{where} has tableCoder {_shown(coder)}, which is none of {', '.join(Coder)}")
    return table, found


def _add(
    where: str, coder: Coder, name: str, given: dict[str, Any], parts: dict[str, KeyPart], mapped: list[MappedColumn]
) -> None:
    if odd := sorted(given.keys() - _COLUMN_KEYS):
        raise ValueError(f"{where} has {_shown(odd[0])}, which is not read; columns have {', '.join(sorted(_COLUMN_KEYS))}")
    family, col, kind = _text(given, "cf", where, ROW_KEY), _text(given, "col", where), _text(given, "type", where)
    try:
        type_, qualifier = ValueType.parse(coder, kind), from_binary_text(col)
    except ValueError as error:
        raise ValueError(f"{where}: {one_line(str(error), 2 * MAX_SHOWN_CHARS)}") from None
    if (length := given.get("length")) is not None:
        type_ = _of_length(where, type_, length)
    if family != ROW_KEY:
        mapped.append(MappedColumn(name, type_, family.encode(), qualifier))
    elif col in parts:
        raise ValueError(f"{where} is of the same part of the row key as {parts[col].name}")
    else:
        parts[col] = KeyPart(name, type_)


def _of_length(where: str, type_: ValueType, given: object) -> ValueType:
    text = str(given)
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text) or int(text) > MAX_LENGTH:
        raise ValueError(f"{where} has length {_shown(given)}, which should be a whole number from 1 to {MAX_LENGTH:,}")
    if type_.size not in (None, int(text)):
        raise ValueError(f"{where} has length {text}, and {type_.name} has {type_.size} bytes")
    return ValueType(type_.coder, type_.name, int(text), type_.precision, type_.scale)


def _key(where: str, text: str, parts: Mapping[str, KeyPart]) -> tuple[KeyPart, ...]:
    names = text.split(":")
    if not parts:
        return ()  # many catalogs name a row key that no column shows
    if len({*names}) < len(names) or {*names} != parts.keys():
        raise ValueError(
            f"{where}: its rowkey is {_shown(text)}, and its columns with cf rowkey show {_shown(':'.join(parts))}: name each "
            "part once, as its col does, split by colons"
        )
    if len(names) > MOST_PARTS:
        raise ValueError(f"{where}: its row key has {len(names)} parts, and may have {MOST_PARTS}")
    key = tuple(parts[name] for name in names)
    for part in key[:-1]:
        ended = part.type.coder is Coder.PHOENIX and part.type.name in ("varchar", "decimal")
        if part.type.size is None and not ended:
            raise ValueError(
                f"{where}: column {part.name} is not the last part of the row key, so it needs a length. If it has none, show "
                "the row key as one part of type string, and split it in SQL"
            )
    return key
