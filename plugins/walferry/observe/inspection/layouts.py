"""The layouts of cells: for people, much as HBase's WALPrettyPrinter prints them, and as JSON, an object a line.

A layout is a series of pieces. A piece is literal text, and then a field of the entry or of the cell. For the printer
(printing.py) the layouts differ only in how they write lists and quotation marks.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Final

from walferry.base.texts import one_line
from walferry.hbase.names import as_wal_name

MAX_URL_CHARS = 4000


class Field(enum.IntEnum):
    """The fields that a piece can print. The first four are rows of the printer's table of entries (EntryRow)."""

    POSITION = 0  # file offset of the entry
    NEXT_POSITION = 1  # file offset just after it
    SEQUENCE_ID = 2
    WRITE_TIME = 3
    TIMESTAMP = 4
    VALUE_LENGTH = 5
    REGION = 6
    TABLE = 7
    ROW = 8
    FAMILY = 9
    QUALIFIER = 10
    VALUE = 11
    TYPE = 12
    WRITTEN = 13  # the write time in words
    TAGS = 14
    CLUSTER_IDS = 15
    NOTHING = 16


LAST_NUMBER: Final = Field.VALUE_LENGTH
LAST_BYTES: Final = Field.VALUE


@dataclass(frozen=True)
class Piece:
    """Literal text and the field that follows it. An optional piece is left out if its field is an empty list."""

    literal: str
    field: Field = Field.NOTHING
    optional: bool = False


@dataclass(frozen=True)
class Layout:
    """The pieces to print once a file, once an entry and once a cell."""

    file: str
    entry: tuple[Piece, ...]
    cell: tuple[Piece, ...]
    json: bool


def text_layout(url: str, values: bool) -> Layout:
    """Return the layout for people: a line for the file, one for each entry and one for each cell."""
    server = _server(url)
    entry = (
        Piece("Sequence=", Field.SEQUENCE_ID),
        Piece(", table=", Field.TABLE),
        Piece(", region=", Field.REGION),
        Piece(", at write timestamp=", Field.WRITTEN),
        Piece(", position=", Field.POSITION),
        Piece("\n    replicated from: ", Field.CLUSTER_IDS, optional=True),
        Piece("\n"),
    )
    cell = (
        Piece("row=", Field.ROW),
        Piece(", column=", Field.FAMILY),
        Piece(":", Field.QUALIFIER),
        Piece(", timestamp=", Field.TIMESTAMP),
        Piece(", type=", Field.TYPE),
        Piece("\n    tag: ", Field.TAGS, optional=True),
        *([Piece("\n    value: ", Field.VALUE)] if values else []),
        Piece("\n"),
    )
    written = f", written by {server}" if server else ""
    return Layout(f"WAL {one_line(url, MAX_URL_CHARS)}{written}\n", entry, cell, json=False)


def json_layout(url: str, values: bool) -> Layout:
    """Return the layout for programs: an object a cell, each on a line of its own."""
    cell = (
        Piece(f'{{"wal":{json.dumps(url)},"server":{json.dumps(_server(url))},"position":', Field.POSITION),
        Piece(',"next_position":', Field.NEXT_POSITION),
        Piece(',"table":"', Field.TABLE),
        Piece('","region":"', Field.REGION),
        Piece('","sequence_id":', Field.SEQUENCE_ID),
        Piece(',"write_time":', Field.WRITE_TIME),
        Piece(',"cluster_ids":[', Field.CLUSTER_IDS),
        Piece('],"row":"', Field.ROW),
        Piece('","family":"', Field.FAMILY),
        Piece('","qualifier":"', Field.QUALIFIER),
        Piece('","timestamp":', Field.TIMESTAMP),
        Piece(',"type":"', Field.TYPE),
        Piece('","tags":[', Field.TAGS),
        Piece('],"value_length":', Field.VALUE_LENGTH),
        *([Piece(',"value":"', Field.VALUE), Piece('"')] if values else []),
        Piece("}\n"),
    )
    return Layout("", (), cell, json=True)


def _server(url: str) -> str | None:
    """Return the server that wrote a WAL, from the file's name."""
    name = as_wal_name(url.rpartition("/")[2])
    return str(name.server) if name and name.server else None
