"""The arguments of `python -m walferry wal`: rows, tables and times as people write them."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from walferry.hbase.binary_text import from_binary_text
from walferry.inspection.selection import Selection
from walferry.names import without_default_namespace


def bytes_argument(text: str) -> bytes:
    """A row or a region's name as HBase shows it, with \\x escapes."""
    try:
        return from_binary_text(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def table_argument(text: str) -> bytes:
    """A table's name as WALs have it: those of the default namespace are without it."""
    return bytes_argument(without_default_namespace(text))


def time_argument(text: str) -> int:
    """Milliseconds since the epoch, given as such or as ISO 8601. A time without an offset is in UTC."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: give 2024-05-01, 2024-05-01T12:30:00, 2024-05-01T12:30:00+02:00 or milliseconds since 1970"
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def add_selection(parser: argparse.ArgumentParser, *, row_required: bool) -> None:
    """Add the options that say which cells are wanted."""
    rows = parser.add_mutually_exclusive_group(required=row_required)
    row = r"only this row, as HBase's shell shows it: \x00 stands for a byte that is not printable ASCII"
    rows.add_argument("--row", type=bytes_argument, help=row)
    rows.add_argument("--row-prefix", type=bytes_argument, metavar="PREFIX", default=b"", help="only rows that begin like this")
    table = "only this table; may be repeated"
    parser.add_argument("--table", action="append", type=table_argument, default=[], metavar="[NAMESPACE:]TABLE", help=table)
    parser.add_argument("--region", type=bytes_argument, help="only this region: its encoded name")
    parser.add_argument("--sequence", type=int, metavar="ID", help="only entries with this sequence id")
    since = "only what was written at this time (ISO 8601, in UTC without an offset; or milliseconds since 1970) or later"
    parser.add_argument("--from", dest="written_from", type=time_argument, metavar="TIME", help=since)
    until = "only what was written before this time"
    parser.add_argument("--to", dest="written_before", type=time_argument, metavar="TIME", help=until)


def selection(parsed: argparse.Namespace) -> Selection:
    """What the options of `add_selection` say."""
    return Selection(
        row=parsed.row,
        row_prefix=parsed.row_prefix,
        tables=tuple(parsed.table),
        region=parsed.region,
        sequence_id=parsed.sequence,
        written_from=parsed.written_from,
        written_before=parsed.written_before,
    )
