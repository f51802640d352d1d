"""The two tables that a lake has beside a table of changes: what HBase shows now, and the delete markers behind that.

    table of HBase    orders                   shop:items
    state             default.orders           shop.items
    markers           default.orders_deletes   shop.items_deletes

    property walferry.merged of the state      Merged, as JSON
    snapshots' summaries                       walferry.commit, walferry.batch, and of the state walferry.valid-through

Columns of the state:

    row, family, qualifier    binary
    timestamp                 long
    value, tags               binary
    sequence_id, write_time   long, timestamptz   of the edit, as in the table of changes
    expires                   timestamptz         when TTL ends the cell; null if it does not

Both tables are Iceberg's format 2 without delete files, which every engine reads. Neither has partitions. The files of the state
are sorted by row, and no two of them have rows of one range, so a merge replaces the files whose rows have changed. Markers are
only appended.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import Snapshot

from walferry.base.records import NotARecord, Record
from walferry.base.texts import one_line
from walferry.replication.peers.column_mappings import ColumnMapping
from walferry.replication.sinks.changes import SCHEMA as CHANGES
from walferry.replication.sinks.iceberg.commits import BATCH, VALID_THROUGH, commit_once
from walferry.replication.sinks.iceberg.data_files import ChangeFile
from walferry.replication.sinks.iceberg.tables import LakeError, add_columns, loaded_or_made, schema_of
from walferry.replication.sinks.iceberg.typed_columns import fields_of
from walferry.shipping.lake.catalog import SUFFIX, identifier, unreadable
from walferry.state_tables.change_files import ancestors, is_first
from walferry.state_tables.hbase_rules import FamilyRules
from walferry.state_tables.ranges import Rows

DELETES = "_deletes"
MERGED, OF_TABLE, COMMIT = "walferry.merged", "walferry.state-of", "walferry.commit"
MAX_SHOWN_CHARS = 300

_TIME = pa.timestamp("us", "UTC")
STATE_SCHEMA = pa.schema(
    [
        *(
            CHANGES.field(name)
            for name in ("row", "family", "qualifier", "timestamp", "value", "tags", "sequence_id", "write_time")
        ),
        pa.field("expires", _TIME),
    ]
)
DELETES_SCHEMA = pa.schema(
    [CHANGES.field(name) for name in ("row", "family", "qualifier", "timestamp", "type", "tags", "sequence_id")]
)

_METRICS = TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX
PROPERTIES = {
    TableProperties.FORMAT_VERSION: "2",
    TableProperties.PARQUET_COMPRESSION: "zstd",
    TableProperties.PARQUET_ROW_GROUP_LIMIT: "65536",
    TableProperties.DEFAULT_WRITE_METRICS_MODE: "none",
    # A merge finds the files of rows, and of cells that expire, by these figures. Files whose first and last rows were cut off
    # would seem to have rows in common.
    f"{_METRICS}.row": "full",
    f"{_METRICS}.timestamp": "full",
    f"{_METRICS}.expires": "full",
}


@dataclass(frozen=True)
class Merged(Record):
    """What a state has: the changes up to a snapshot of a table of changes, by the rules that HBase's families had then."""

    changes: str  # the UUID of the table
    snapshot: int
    families: tuple[FamilyRules, ...] = ()
    columns: str = ""  # its typed columns, as `StateTables.columns_of` writes them
    left: str = ""  # the row (hexadecimal) from which files are still to be written anew by these; empty: none
    deletes: str = ""  # the UUID of the table with the markers
    commits: tuple[str, str] = ("", "")  # names of the last commits: of the state, and of the markers if there was one


@dataclass
class StateTables:
    """The state of one table of HBase, its markers, and what the state has; None if that is nothing."""

    name: str
    state: Table
    deletes: Table
    merged: Merged | None

    def columns_of(self, mapping: ColumnMapping | None) -> str:
        """Return a short text of the state's typed columns, which is another one if one of them is another one."""
        fields = [] if mapping is None else [self.state.schema().find_field(each.name) for each in fields_of(mapping)]
        shown = repr((mapping, [(each.field_id, str(each.field_type)) for each in fields]))
        return hashlib.sha256(shown.encode()).hexdigest()[:32] if fields else ""

    @classmethod
    def opened(cls, catalog: Catalog, name: str, mapping: ColumnMapping | None = None, *, make: bool = True) -> StateTables:
        """Return the tables of a table of HBase; make them if they do not exist, with the state's typed columns.

        Raises LakeError if they are other tables.
        """
        if odd := next((suffix for suffix in (SUFFIX, DELETES) if name.endswith(suffix)), None):
            raise LakeError(
                f"table {name} gets no table of state: its name ends with {odd}, as those of a lake's other tables do",
                "Leave it out: name the other tables",
            )
        state = _table(catalog, identifier(name, ""), STATE_SCHEMA, name, make)
        if make:
            _add_columns(state, mapping)
        deletes = _table(catalog, identifier(name, DELETES), DELETES_SCHEMA, name, make)
        return cls(name, state, deletes, _merged(state, deletes))

    def commit(
        self,
        run: str,
        merged: Merged,
        *,
        markers: Iterable[ChangeFile],
        added: Iterable[ChangeFile],
        removed: Collection[DataFile],
        valid_through: str,
    ) -> None:
        """Append markers, and then replace files of the state, and note what it has: all edits up to a time, if that is known.

        Raises LakeError.

        Markers that are there before the cells that they hide are gone do no harm: a merge reads them again.
        """
        found, name = [file.data_file(self.deletes.spec()) for file in markers], uuid.uuid4().hex
        if found:
            _commit(self.deletes, {}, {BATCH: run, COMMIT: name}, found)
            markers_by = name
        else:
            before = self.merged.commits[1] if self.merged is not None else ""
            markers_by = _last_commit(self.deletes) or before  # a merge that was killed may have left some
        noted = replace(merged, deletes=str(self.deletes.metadata.table_uuid), commits=(name, markers_by))
        files = [file.data_file(self.state.spec()) for file in added]
        summary = {BATCH: run, COMMIT: name} | ({VALID_THROUGH: valid_through} if valid_through else {})
        _commit(self.state, {MERGED: noted.to_json()}, summary, files, removed)
        self.merged = noted


def rows_of(file: DataFile, table: Table) -> Rows:
    """Return which rows a file may have."""
    column = table.schema().find_field("row").field_id
    first, last = (file.lower_bounds or {}).get(column), (file.upper_bounds or {}).get(column)
    return Rows(first or b"", last, file.file_size_in_bytes)


def _commit(
    table: Table,
    properties: Mapping[str, str],
    summary: Mapping[str, str],
    added: Iterable[DataFile],
    removed: Collection[DataFile] = (),
) -> None:
    try:
        commit_once(table, properties, summary, added, removed)
    except Exception as error:
        raise LakeError(
            f"table {'.'.join(table.name())} cannot be written: {one_line(str(error), MAX_SHOWN_CHARS)}",
            "If others have written to it meanwhile, the next merge does this again",
        ) from error


def _add_columns(state: Table, mapping: ColumnMapping | None) -> None:
    try:
        add_columns(state, mapping, anew=True)
    except LakeError:
        raise
    except Exception as error:
        raise LakeError(
            f"table {'.'.join(state.name())} cannot get typed columns: {one_line(str(error), MAX_SHOWN_CHARS)}",
            "The next merge tries again",
        ) from error


def _table(catalog: Catalog, at: tuple[str, str], columns: pa.Schema, name: str, make: bool) -> Table:
    schema = schema_of(columns)
    try:
        made = {**PROPERTIES, OF_TABLE: name}
        table = loaded_or_made(catalog, at, schema, made) if make else catalog.load_table(at)
    except NoSuchTableError:
        raise LakeError(f"the lake has no {'.'.join(at)} yet", "Run merge_changes, or walferry merge") from None
    except Exception as error:
        raise unreadable(at, error) from error
    _check(table, schema, name)
    return table


def _check(table: Table, schema: Schema, name: str) -> None:
    """Raise LakeError unless this is a table of ours, of that table of HBase."""
    shown, of = ".".join(table.name()), table.properties.get(OF_TABLE)
    if of != name:
        what = "is not a table of Walferry's" if of is None else f"has the state of table {one_line(of, MAX_SHOWN_CHARS)}"
        raise LakeError(f"table {shown} {what}, so table {name} gets no state there", "Rename that table, or leave this one out")
    kinds = {each.name: each.field_type for each in table.schema().fields}
    for wanted in schema.fields:
        if kinds.get(wanted.name) != wanted.field_type:
            raise LakeError(
                f"table {shown}: column {wanted.name} should be {wanted.field_type}, and is {kinds.get(wanted.name)}",
                "Drop the table and the one with its markers: the next merge makes them again from the table of changes",
            )
    if table.spec().fields:
        raise LakeError(f"table {shown} is partitioned by {table.spec()}, and should not be", "Drop its partition fields")


def _merged(state: Table, deletes: Table) -> Merged | None:
    """Return what the state has, as far as that is certain. Raises LakeError if the property makes no sense.

    Properties outlive snapshots. So the state, or the markers, may have been rolled back since, or the markers dropped.
    """
    text = state.properties.get(MERGED, "")
    if not text:
        return None
    try:
        found = Merged.from_json(text)
    except NotARecord as error:
        raise LakeError(
            f"table {'.'.join(state.name())}: its property {MERGED} is {one_line(text, MAX_SHOWN_CHARS)!r}: {error}",
            "Remove the property: the next merge reads all changes",
        ) from error
    same = found.deletes == str(deletes.metadata.table_uuid)
    return found if same and _has(state, found.commits[0], last=True) and _has(deletes, found.commits[1]) else None


def _has(table: Table, commit: str, *, last: bool = False) -> bool:
    """Return whether a table has one of our commits, or has had it before its snapshots expired; as the last one of ours."""
    if not commit:
        return True
    for each in ancestors(table, table.current_snapshot()):
        ours = _commit_of(each)
        if ours == commit:
            return True
        if is_first(each) or (last and ours):
            return False
    # The snapshots before these have expired. One that is still there, and not among them, was rolled back.
    return table.current_snapshot() is not None and all(_commit_of(each) != commit for each in table.snapshots())


def _last_commit(table: Table) -> str:
    """Return the last of our commits that a table has; empty if none is known."""
    return next((ours for each in ancestors(table, table.current_snapshot()) if (ours := _commit_of(each))), "")


def _commit_of(snapshot: Snapshot) -> str:
    return (snapshot.summary.get(COMMIT) or "") if snapshot.summary is not None else ""
