"""Finds the WALs in folders, and leaves out WALs that cannot contain edits of a time range.

A folder may be a cluster's WAL root, its WALs or oldWALs, a server's folder in them, an archive, or any folder of copies. In a
root, only the folders where HBase puts WALs are listed, because the root also contains the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from walferry.base.errors import WalferryError
from walferry.hbase.files.clients import at
from walferry.hbase.files.store import OLD_WALS, SPLITTING, WALS
from walferry.hbase.names import WalName, as_wal_name

CORRUPT = "corrupt"  # HBase puts WALs here that it could not split
MAX_DEPTH = 3  # for a root, WALs, a server's folder
# A RegionServer's clock may be corrected, and an entry gets its write time a moment before it is in a WAL.
MARGIN_MS = 3_600_000


@dataclass(frozen=True)
class ListedFile:
    """A file to search. `name` is None if it does not have the name of a WAL."""

    url: str
    size: int
    name: WalName | None


@dataclass
class Listing:
    """The files found, and the folders that could not be listed."""

    files: list[ListedFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def as_url(path: str) -> str:
    """Return the URL of a path, or the URL itself. Hadoop's URLs are not encoded, so this URL is not either."""
    return path if ":/" in path else f"file://{Path(path).absolute()}"


def list_wals(places: Sequence[str]) -> Listing:
    """List the WALs in files and folders (URLs), oldest first. Of several files with the same name, take the largest."""
    listing = Listing()
    found: dict[str, ListedFile] = {}
    for place in places:
        try:
            for url, size in _wals_below(place.rstrip("/")):
                name = as_wal_name(url.rpartition("/")[2])
                key = name.text if name else url
                if key not in found or found[key].size < size:
                    found[key] = ListedFile(url, size, name)
        except FileNotFoundError:
            listing.problems.append(f"{place}: there is no such file or folder")
        except (WalferryError, OSError) as error:
            listing.problems.append(str(error))
    listing.files = sorted(found.values(), key=lambda file: (file.name.timestamp if file.name else 0, file.url))
    return listing


def within(files: Iterable[ListedFile], written_from: int | None, written_before: int | None) -> list[ListedFile]:
    """Leave out WALs that were begun after the time range, or finished before it, with an hour to spare for wrong clocks.

    A WAL's name says when the file was begun. It was finished at the latest when the next WAL of its group was begun.
    """
    files = list(files)
    begun: dict[tuple[str, bool], list[int]] = {}  # hbase:meta's WALs form a series of their own next to their server's
    for file in files:
        if file.name:
            begun.setdefault((file.name.group, file.name.is_meta), []).append(file.name.timestamp)
    ends = {series: dict(pairwise(sorted(times))) for series, times in begun.items()}

    def may_hold(file: ListedFile) -> bool:
        if file.name is None:
            return True
        end = ends[file.name.group, file.name.is_meta].get(file.name.timestamp)
        begun_too_late = written_before is not None and file.name.timestamp - MARGIN_MS >= written_before
        finished_too_early = written_from is not None and end is not None and end + MARGIN_MS < written_from
        return not (begun_too_late or finished_too_early)

    return [file for file in files if may_hold(file)]


def _wals_below(url: str) -> Iterator[tuple[str, int]]:
    """Yield URL and size of the file `url`, or of each WAL in the folder `url`. Raises FileNotFoundError, StoreError."""
    info = at(url, lambda system, path: system.info(path))
    if info["type"] != "directory":
        yield url, int(info["size"])
        return
    yield from _in_folder(url, MAX_DEPTH)


def _in_folder(url: str, depth: int) -> Iterator[tuple[str, int]]:
    contents = at(url, _contents)
    names = {name for name, _, _ in contents}
    only = {WALS, OLD_WALS, CORRUPT} if names & {WALS, OLD_WALS} else names
    for name, is_folder, size in contents:
        if is_folder and depth > 1 and name in only:
            # The Master renames a dead server's folder, and removes it once its WALs are in oldWALs.
            for present in (name, f"{name}{SPLITTING}"):
                with suppress(FileNotFoundError):
                    yield from _in_folder(f"{url}/{present}", depth - 1)
                    break
        elif not is_folder and as_wal_name(name) is not None:
            yield f"{url}/{name}", size


def _contents(system: Any, path: str) -> list[tuple[str, bool, int]]:
    """Return name, whether it is a folder, and size of each entry of a folder."""
    infos: Iterable[dict[str, Any]] = system.ls(path, detail=True)
    return sorted(
        (info["name"].rstrip("/").rpartition("/")[2], info["type"] == "directory", int(info["size"] or 0)) for info in infos
    )
