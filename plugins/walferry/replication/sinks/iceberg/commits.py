"""Appends files to tables of changes, each together with the positions up to which the table then has all edits.

    property walferry.positions.<feed>    Positions, as JSON; a position is [WAL, offset]
    snapshot's summary                    walferry.batch, walferry.feed, walferry.valid-through

A **feed** is what reads one cluster's WALs for a lake: a peer of a source. Its batches read each WAL group from the position in
the source's ZooKeeper on, commit to the lake, and only then move that position. So a batch may have been committed to some of its
tables, and not be noted in ZooKeeper: the next one leaves out of each table what lies before the table's own positions.

WAL groups whose servers are dead and whose queues are drained never come back, and are forgotten. A driver that has slept since
before that would take a group without a position for one that was never read. So each forgetting is counted, and a driver that
has seen another count is refused, too.

Positions and files are one commit, so neither can be there without the other. They are a property of the table, and not a part of
the snapshot's summary. Properties outlive snapshots, which others expire, and merge when they compact files. And a table's
metadata has all its snapshots, so it would have the positions of thousands of WAL groups as many times.

A **first copy** brings what was in HBase before the feed. It commits files as batches do, each time with the names of the parts
that the table then has. Each try of a copy first writes its own name, so that the commit of an earlier try, or of a batch that
knows nothing of the copy, is refused from then on.

**A commit counts only on top of the positions that its batch has read.** Iceberg's catalogs take a commit if the table's present
snapshot is the one that the writer has seen. If it is another one, PyIceberg would append the files to that: it cannot know
whether that one has the same edits. Here the table is read again, and the files are appended only if the feed's positions are
unchanged, so if others have written. Of two batches with the same edits, one is refused.
"""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties

from walferry.base.texts import one_line
from walferry.hbase.names import parse_wal_name
from walferry.replication.sinks.iceberg.data_files import ChangeFile
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.replication.sinks.positions import Position

POSITIONS = "walferry.positions."  # and the feed
PART = re.compile(r"[0-9a-f]{32}")  # the name of a part of a copy
BATCH, FEED, VALID_THROUGH = "walferry.batch", "walferry.feed", "walferry.valid-through"
TRIES = 20  # of a commit, if others keep writing to the table
RETRY_SECONDS = 0.1  # grows with each try
MAX_RETRY_SECONDS = 5.0
MAX_SHOWN_CHARS = 300

log = logging.getLogger(__name__)


class PositionsMoved(LakeError):
    """Another batch or copy has committed edits of the same feed. Nothing of this one is in the table."""


@dataclass(frozen=True)
class FirstCopy:
    """What a table has of a first copy: the names of its parts, which are described elsewhere, and the try that writes it.

    It has these families, as texts (names.family_text). Edits of WALs that were begun before `until` (ms since the epoch) may be
    in the copy. Its last commit makes it `whole`.
    """

    by: str
    parts: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    until: int = 0
    whole: bool = False


@dataclass(frozen=True)
class Positions:
    """Up to where a table has all edits of a feed's WAL groups, how often it has forgotten groups, and its first copy."""

    groups: Mapping[str, Position] = field(default_factory=dict)
    forgotten: int = 0
    copied: FirstCopy | None = None

    def to_json(self) -> str:
        """Return the positions as the table keeps them."""
        found = {"groups": dict(self.groups), "forgotten": self.forgotten, "copied": self.copied and asdict(self.copied)}
        return json.dumps(found, sort_keys=True, separators=(",", ":"))

    def without(self, gone: Collection[str]) -> Positions:
        """Return the positions without those of groups that are gone."""
        kept = {group: position for group, position in self.groups.items() if group not in gone}
        return replace(self, groups=kept, forgotten=self.forgotten + (len(kept) < len(self.groups)))


@dataclass(frozen=True)
class Batch:
    """A batch of a feed, by its name."""

    feed: str
    name: str
    valid_through: int | None = None  # ms since the epoch: with it the table has all edits written before; None: not known


def positions_of(table: Table, feed: str) -> Positions:
    """Return up to where a table has all edits of a feed. Raises LakeError if the property makes no sense."""
    text = table.properties.get(POSITIONS + feed, "")
    if not text:
        return Positions()
    try:
        found = json.loads(text)
        groups = {str(group): (_wal(wal, group), _count(offset)) for group, (wal, offset) in found["groups"].items()}
        return Positions(groups, _count(found["forgotten"]), _copied(found.get("copied")))
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        name = ".".join(table.name())
        raise LakeError(
            f"table {name}: its property {POSITIONS + feed} is {one_line(text, MAX_SHOWN_CHARS)!r}, and should be "
            f"a WAL and an offset for each WAL group: {one_line(repr(error), MAX_SHOWN_CHARS)}",
            "Restore it from an earlier metadata file of the table",
        ) from error


def check_copy_ended(table: Table, copied: FirstCopy | None) -> None:
    """Raise LakeError if a table has a part of a first copy."""
    if copied is not None and not copied.whole:
        raise LakeError(
            f"table {'.'.join(table.name())} has a part of a first copy, which was not ended",
            "Run initial_snapshot for the peer: it goes on. Or drop the table of changes",
        )


def _wal(value: object, group: str) -> str:
    if not isinstance(value, str) or parse_wal_name(value).group != group:
        raise ValueError(f"{value!r} is not a WAL of group {group}")
    return value


def _copied(value: Any) -> FirstCopy | None:
    if value is None:
        return None
    if not isinstance(value["whole"], bool):
        raise ValueError(f"{value['whole']!r} does not say whether the copy is whole")
    parts, families = tuple(map(_part, value["parts"])), tuple(map(str, value["families"]))
    return FirstCopy(str(value["by"]), parts, families, _count(value["until"]), value["whole"])


def _part(name: object) -> str:
    if not isinstance(name, str) or not PART.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a part of a copy")
    return name


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is not an offset")
    return value


def other_feeds(table: Table, feed: str) -> list[str]:
    """Return the other feeds of a table."""
    return sorted(
        name.removeprefix(POSITIONS) for name in table.properties if name.startswith(POSITIONS) and name != POSITIONS + feed
    )


def append(
    table: Table, batch: Batch, files: Iterable[ChangeFile], *, seen: Positions, moved: Mapping[str, Position],
    gone: Collection[str] = (),
) -> None:  # fmt: skip
    """Append files to a table, and move its positions to `moved`, in one commit.

    `seen` are the positions that the batch has read before it began. Those of other WAL groups may have moved since: other runs
    of the feed ship them. `gone` are WAL groups that will never be queued again, and are forgotten. Without files nothing is
    committed, because the source's own positions say the same. Raises PositionsMoved, and LakeError if the table cannot be
    written.
    """
    found = _data_files(table, files)
    if not found:
        return

    def wanted(present: Positions) -> Positions:
        same = all(present.groups.get(group) == seen.groups.get(group) for group in moved)
        if not same or present.forgotten != seen.forgotten or present.copied != seen.copied:
            raise _moved(table, batch)
        return replace(present, groups={**present.groups, **moved}).without(gone)

    def is_there(present: Positions) -> bool:
        return bool(moved) and all(present.groups.get(group) == position for group, position in moved.items())

    _write(table, batch, found, wanted, is_there)


def append_copy(table: Table, batch: Batch, files: Iterable[ChangeFile], *, seen: Positions, copied: FirstCopy) -> Positions:
    """Append files of a first copy to a table, and note what it then has of the copy, in one commit; also without any files.

    `seen` are the positions that the copy has seen last. Returns those of now. Raises PositionsMoved, LakeError.
    """
    after = replace(seen, copied=copied)

    def wanted(present: Positions) -> Positions:
        if present != seen:
            raise _moved(table, batch)
        return after

    _write(table, batch, _data_files(table, files), wanted, lambda present: present == after)
    return after


def _data_files(table: Table, files: Iterable[ChangeFile]) -> list[DataFile]:
    return [file.data_file(table.spec()) for file in files]


def _moved(table: Table, batch: Batch) -> PositionsMoved:
    return PositionsMoved(
        f"table {'.'.join(table.name())}: another run has committed edits of {batch.feed} since this one began",
        "Nothing was committed. The next run goes on from there",
    )


def _write(
    table: Table, batch: Batch, files: Sequence[DataFile], wanted: Callable[[Positions], Positions],
    is_there: Callable[[Positions], bool],
) -> None:  # fmt: skip
    """Commit files, and the positions that are `wanted` instead of those present; again if others have written meanwhile.

    `is_there` says whether positions are those of a commit that has succeeded. Raises what `wanted` raises, LakeError.
    """
    name = ".".join(table.name())
    for number in range(TRIES):
        positions = wanted(positions_of(table, batch.feed))
        try:
            _commit(table, batch, positions, files)
            return
        except Exception as error:
            if _is_there(table, batch, is_there):  # only the answer was lost, or a server has tried again what it had done
                return
            if not isinstance(error, CommitFailedException):
                raise LakeError(f"table {name} cannot be written: {one_line(str(error), MAX_SHOWN_CHARS)}") from error
            why = error
        log.info("table %s was written by others meanwhile: %s", name, why)
        time.sleep(random.uniform(0.5, 1.0) * min(RETRY_SECONDS * 2**number, MAX_RETRY_SECONDS))
        try:
            table.refresh()
        except Exception as error:
            raise LakeError(f"table {name} cannot be read: {one_line(str(error), MAX_SHOWN_CHARS)}") from error
    raise LakeError(
        f"table {name}: {TRIES} commits in a row came after others' commits",
        "The next run tries again. Let whoever compacts the table do so less often",
    ) from why


def _is_there(table: Table, batch: Batch, is_there: Callable[[Positions], bool]) -> bool:
    """Return whether the table has the positions of a commit, as far as the catalog answers."""
    try:
        table.refresh()
        return is_there(positions_of(table, batch.feed))
    except Exception as error:
        log.warning("whether table %s has got the commit is not known: %s", ".".join(table.name()), error)
        return False


def _commit(table: Table, batch: Batch, positions: Positions, files: Iterable[DataFile]) -> None:
    """Commit once, on top of the snapshot that `table` has seen. Raises CommitFailedException if it is another one by now."""
    summary = {FEED: batch.feed, BATCH: batch.name}
    if batch.valid_through is not None:
        when = datetime.fromtimestamp(batch.valid_through / 1000, UTC)
        summary[VALID_THROUGH] = when.isoformat(timespec="milliseconds")
    commit_once(table, {POSITIONS + batch.feed: positions.to_json()}, summary, files)


def commit_once(
    table: Table, properties: Mapping[str, str], summary: Mapping[str, str], files: Iterable[DataFile],
    removed: Collection[DataFile] = (),
) -> None:  # fmt: skip
    """Append files to a table in the place of those `removed`, and set properties, on top of the snapshot that `table` has seen.

    Raises CommitFailedException if it is another one by now, and what else the catalog and the file system raise.
    """
    once = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": once})  # for this call; the property is not stored
    with table.transaction() as transaction:
        transaction.set_properties({**properties})
        update = transaction.update_snapshot(snapshot_properties={**summary})
        with update.overwrite() if removed else update.fast_append() as snapshot:
            # Without further tries PyIceberg takes CommitFailedException for certain, and would delete the manifests of a commit
            # that is there. Left behind, they are orphans as files are.
            snapshot._clean_all_uncommitted = lambda: None  # type: ignore[method-assign]
            for file in files:
                snapshot.append_data_file(file)
            for file in removed:
                snapshot.delete_data_file(file)
