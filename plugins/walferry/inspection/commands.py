"""`python -m walferry wal`: shows what WALs hold, and finds who wrote a row, when, and in which WAL at which byte."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from contextlib import closing
from typing import BinaryIO

from walferry.crypto.errors import KeyProviderError
from walferry.crypto.provider import KeyProvider
from walferry.inspection.arguments import add_selection, selection
from walferry.inspection.layouts import json_layout, text_layout
from walferry.inspection.listing import as_url, list_wals, within
from walferry.inspection.many_files import search_all
from walferry.inspection.searching import Answer, Question
from walferry.source.cluster import DEFAULT_CONN_ID, SourceCluster, SourceError
from walferry.source.connection import from_env, from_text
from walferry.texts import one_line
from walferry.wal.windows import UnwrapKey

DONE, PROBLEM = 0, 1
READER_GONE = 141  # what a shell reports of a command that SIGPIPE ends
MAX_LINE_CHARS = 4000

_STATUS = """\
Exit status: 0 if all files were read, whether anything was found or not; 1 if the command is refused or a file cannot be
read to its end (stderr names it and the byte); 2 for wrong arguments; 141 if the reader of the output has gone away, as with
`| head`. A file that was not closed, or that ends within its last entry, is named too, but is not an error: it is still
being written, or its server died.
"""


def add_commands(groups: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `wal show` and `wal find`. Their `main` is `run_show` or `run_find`."""
    commands = groups.add_parser("wal", help="what WALs hold").add_subparsers(required=True, metavar="command")

    show = _command(commands, "show", "show the cells of WALs, as HBase's WALPrettyPrinter does")
    show.add_argument("files", nargs="+", metavar="FILE|URL", help="a WAL: a path, file:///…, hdfs://…")
    show.add_argument("--position", type=int, default=0, metavar="BYTE", help="begin with the entry at this byte of the file")
    add_selection(show, row_required=False)
    show.set_defaults(main=run_show)

    find = _command(commands, "find", "find out who wrote a row, when, and in which WAL at which byte")
    places = "a WAL, or a folder: a cluster's WAL root, its WALs or oldWALs, an archive (default: the source's wal_root)"
    find.add_argument("places", nargs="*", metavar="FOLDER|URL", help=places)
    add_selection(find, row_required=True)
    find.set_defaults(main=run_find)


def run_show(parsed: argparse.Namespace) -> int:
    """Print the wanted cells of the files. Returns the exit status."""
    return _print_all([as_url(file) for file in parsed.files], _question(parsed, parsed.position), [])


def run_find(parsed: argparse.Namespace) -> int:
    """Print the wanted cells of all WALs in the folders, the oldest WAL first. Returns the exit status."""
    question = _question(parsed, 0)
    listing = list_wals([as_url(place) for place in parsed.places] or [_source(parsed).wal_root])
    files = within(listing.files, parsed.written_from, parsed.written_before)
    answers: list[Answer] = []
    status = _print_all([file.url for file in files], question, answers)
    if status == READER_GONE or not all(map(_tell, listing.problems)):
        return READER_GONE
    hits = sum(answer.cells > 0 for answer in answers)
    cells, read = sum(answer.cells for answer in answers), sum(answer.bytes for answer in answers)
    skipped = f"; {len(listing.files) - len(files)} WALs are of other times" if len(files) < len(listing.files) else ""
    if not _tell(f"{cells:,} cells in {hits:,} of {len(files):,} WALs ({read:,} bytes){skipped}"):
        return READER_GONE
    return PROBLEM if listing.problems else status


def _command(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text, epilog=_STATUS)
    command.add_argument("--json", action="store_true", help="print a JSON object for each cell, each on a line of its own")
    command.add_argument("--values", action="store_true", help="print the cells' values too")
    keys = "for encrypted WALs, the URL of the key store (default: the key_provider of the source's connection, if there is one)"
    command.add_argument("--key-provider", metavar="URL", help=keys)
    command.add_argument("--key-name", action="append", default=[], metavar="ALIAS", help="an alias to try; may be repeated")
    command.set_defaults(refuse=command.error)
    return command


def _question(parsed: argparse.Namespace, position: int) -> Question:
    if None not in (parsed.written_from, parsed.written_before) and parsed.written_from >= parsed.written_before:
        parsed.refuse("--from does not come before --to, so there is nothing to find")
    layout = json_layout if parsed.json else text_layout
    return Question(selection(parsed), layout, parsed.values, _keys(parsed), position)


def _keys(parsed: argparse.Namespace) -> UnwrapKey | None:
    """What unwraps the keys of encrypted WALs, if it is known. Raises SourceError."""
    if parsed.key_provider:
        try:
            return KeyProvider(parsed.key_provider, parsed.key_name)
        except KeyProviderError as error:
            raise SourceError(f"--key-provider: {error}") from None
    known = parsed.source or f"AIRFLOW_CONN_{DEFAULT_CONN_ID.upper()}" in os.environ
    return _source(parsed).keys() if known else None


def _source(parsed: argparse.Namespace) -> SourceCluster:
    return from_text(parsed.source) if parsed.source else from_env()


def _print_all(urls: Iterable[str], question: Question, answers: list[Answer]) -> int:
    """Print what is found, and tell what is wrong with files. Adds their answers to `answers`. Returns the exit status."""
    status = DONE
    with closing(search_all(urls, question)) as parts:
        for part in parts:
            if isinstance(part, Answer):
                answers.append(part)
                status = PROBLEM if part.problem else status
                told = _tell(part.problem or part.note)
            else:
                told = _write(sys.stdout.buffer, part)
            if not told:
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
    """Write a line to stderr, if there is anything to tell. Returns False if its reader has gone away."""
    line = f"walferry: {one_line(text, MAX_LINE_CHARS)}\n"
    return not text or _write(sys.stderr.buffer, line.encode(errors="backslashreplace"))
