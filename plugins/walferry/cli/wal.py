"""`walferry wal`: shows the contents of WALs, and finds who wrote a row, when, and in which WAL at which byte."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from walferry.base.texts import one_line
from walferry.cli import options
from walferry.cli.options import BYTES, TABLE, TIME
from walferry.cli.show import ERROR, READER_GONE, WELL
from walferry.cli.source import Chosen

if TYPE_CHECKING:  # importing numba takes too long for `--help`
    from walferry.hbase.wal.wal_batches import UnwrapKey
    from walferry.observe.inspection.searching import Answer, Question

MAX_LINE_CHARS = 4000

_STATUS = """\
Exit status: 0 if all files were read, whether anything was found or not; 1 if the command is refused or a file cannot be
read to its end (stderr names it and the byte); 2 for wrong arguments; 141 if the reader of the output has gone away, as with
`| head`. A file that was not closed, or that ends within its last entry, is named too, but is not an error: it is still
being written, or its server died.
"""


_ASKED = options.added(  # the options that choose cells and their output
    click.option(
        "--row", type=BYTES,
        help=r"Only this row, as HBase's shell shows it: \x00 stands for a byte that is not printable ASCII.",
    ),
    click.option("--row-prefix", type=BYTES, metavar="PREFIX", help="Only rows that begin like this."),
    click.option(
        "--table", "tables", type=TABLE, multiple=True, metavar="[NAMESPACE:]TABLE", help="Only this table; may be repeated."
    ),
    click.option("--region", type=BYTES, help="Only this region: its encoded name."),
    click.option("--sequence", "sequence_id", type=int, metavar="ID", help="Only entries with this sequence id."),
    click.option(
        "--from", "written_from", type=TIME, metavar="TIME",
        help="Only what was written at this time (ISO 8601, in UTC without an offset; or milliseconds since 1970) or later.",
    ),
    click.option("--to", "written_before", type=TIME, metavar="TIME", help="Only what was written before this time."),
    options.json_option("Print a JSON object for each cell, each on a line of its own."),
    click.option("--values", is_flag=True, help="Print the cells' values too."),
    click.option(
        "--key-provider", metavar="URL",
        help="For encrypted WALs, the URL of the key store (default: the key_provider of the source's connection, if there "
        "is one).",
    ),
    click.option("--key-name", "key_names", multiple=True, metavar="ALIAS", help="An alias to try; may be repeated."),
)  # fmt: skip


@click.group()
def wal() -> None:
    """Show the cells of WALs, and find out who wrote a row. The commands need no running cluster, only the files."""


@wal.command(epilog=_STATUS)
@click.argument("files", nargs=-1, required=True, metavar="FILE|URL...")
@click.option("--position", type=int, default=0, metavar="BYTE", help="Begin with the entry at this byte of the file.")
@_ASKED
@click.pass_obj
def show(chosen: Chosen, /, files: tuple[str, ...], position: int, **asked: Any) -> int:
    """Show the cells of WALs, as HBase's WALPrettyPrinter does. A WAL is a path, file:///… or hdfs://…"""
    from walferry.observe.inspection.listing import as_url

    return _print_all([as_url(file) for file in files], _question(chosen, position, **asked), [])


@wal.command(epilog=_STATUS)
@click.argument("places", nargs=-1, metavar="[FOLDER|URL]...")
@_ASKED
@click.pass_obj
def find(chosen: Chosen, /, places: tuple[str, ...], **asked: Any) -> int:
    """Find out who wrote a row, when, and in which WAL at which byte.

    It searches WALs and folders: a cluster's WAL root, its WALs or oldWALs, an archive (default: the source's wal_root).
    """
    if asked["row"] is None and asked["row_prefix"] is None:
        raise click.UsageError("one of --row and --row-prefix is required")
    question = _question(chosen, 0, **asked)
    from walferry.observe.inspection.listing import as_url, list_wals, within

    listing = list_wals([as_url(place) for place in places] or [chosen.read().wal_root])
    files = within(listing.files, asked["written_from"], asked["written_before"])
    answers: list[Answer] = []
    status = _print_all([file.url for file in files], question, answers)
    if status == READER_GONE or not all(map(_tell, listing.problems)):
        return READER_GONE
    hits = sum(answer.cells > 0 for answer in answers)
    cells, read = sum(answer.cells for answer in answers), sum(answer.bytes for answer in answers)
    skipped = f"; {len(listing.files) - len(files)} WALs are of other times" if len(files) < len(listing.files) else ""
    if not _tell(f"{cells:,} cells in {hits:,} of {len(files):,} WALs ({read:,} bytes){skipped}"):
        return READER_GONE
    return ERROR if listing.problems else status


def _question(
    chosen: Chosen, start: int, *, as_json: bool, values: bool, key_provider: str | None, key_names: tuple[str, ...], **cells: Any
) -> Question:
    begins, ends = cells["written_from"], cells["written_before"]
    if begins is not None and ends is not None and begins >= ends:
        raise click.UsageError("--from does not come before --to, so there is nothing to find")
    if cells["row"] is not None and cells["row_prefix"] is not None:
        raise click.UsageError("--row-prefix is not allowed with --row")
    from walferry.observe.inspection.layouts import json_layout, text_layout
    from walferry.observe.inspection.searching import Question
    from walferry.observe.inspection.selection import Selection

    selection = Selection(**cells | {"row_prefix": cells["row_prefix"] or b""})
    keys = _keys(chosen, key_provider, key_names)
    return Question(selection, json_layout if as_json else text_layout, values, keys, start)


def _keys(chosen: Chosen, url: str | None, names: tuple[str, ...]) -> UnwrapKey | None:
    """Return the function that unwraps the keys of encrypted WALs, if it is known. Raises SourceError."""
    from walferry.hbase.crypto.provider import KeyProvider, KeyProviderError
    from walferry.replication.source.cluster import SourceError

    if url:
        try:
            return KeyProvider(url, names)
        except KeyProviderError as error:
            raise SourceError(f"--key-provider: {error}") from None
    return chosen.read().keys() if chosen.given else None


def _print_all(urls: Iterable[str], question: Question, answers: list[Answer]) -> int:
    """Print the cells that are found, and problems with files. Add the answers to `answers`. Returns the exit status."""
    from walferry.observe.inspection.searching import Answer, search_all

    status = WELL
    with closing(search_all(urls, question)) as parts:
        for part in parts:
            if isinstance(part, Answer):
                answers.append(part)
                status = ERROR if part.problem else status
                reported = _tell(part.problem or part.note)
            else:
                reported = _write(sys.stdout.buffer, part)
            if not reported:
                return READER_GONE
    return status


def _write(out: BinaryIO, part: bytes) -> bool:
    """Write to the output at once. Returns False if its reader has gone away."""
    try:
        out.write(part)
        out.flush()
    except BrokenPipeError:
        # Python would try to write the rest at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return False
    return True


def _tell(text: str) -> bool:
    """Write a line to stderr, unless the text is empty. Returns False if its reader has gone away."""
    line = f"walferry: {one_line(text, MAX_LINE_CHARS)}\n"
    return not text or _write(sys.stderr.buffer, line.encode(errors="backslashreplace"))
