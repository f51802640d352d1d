"""The errors in the input of HFiles, and in HFiles that are read. Every error names the thing, the place and the remedy."""

from __future__ import annotations

from typing import Final

from walferry.base.errors import WalferryError
from walferry.hbase.binary_text import to_binary_text

_SHOWN_BYTES: Final = 100  # of a row or a qualifier


class HFileError(WalferryError):
    """No HFile can be made of the input."""

    retry_helps = False


class BadBorders(HFileError):
    """The description of a peer cluster's table contradicts itself."""

    advice = "Look at the table's regions in the peer cluster's hbase:meta (hbase hbck reports holes), repair them, and run again"

    def __init__(self, table: bytes, problem: str) -> None:
        super().__init__(f"table {table.decode(errors='backslashreplace')} of the peer cluster: {problem}")


class NoSuchStore(HFileError):
    """An edit's table or family does not exist at the peer cluster."""

    advice = (
        "Create it at the peer cluster, or exclude it from the peer (exclude_table_cfs); if it is dropped at both clusters, the "
        "peer's setting for deleted tables and families says whether its edits are dropped"
    )

    def __init__(self, path: str, offset: int, table: bytes, family: bytes | None) -> None:
        name = table.decode(errors="backslashreplace")
        what = f"table {name}" if family is None else f"family {family.decode(errors='backslashreplace')} of table {name}"
        super().__init__(f"{path} at byte {offset}: an edit goes to {what}, which the peer cluster does not have")


class BrokenRun(HFileError):
    """A sorted run was cut off or damaged on its way."""

    retry_helps = True
    advice = "Run again; if it comes back, the machine's memory or disk changes data"

    def __init__(self, run: int | None, offset: int, problem: str) -> None:
        name = "sorted run" if run is None else f"sorted run {run}"
        super().__init__(f"{name} at byte {offset}: {problem}")


class TooManyRuns(HFileError):
    """A store has more sorted runs than can be merged at once."""

    advice = "A task makes a run of each store for every 16 MB of edits: send the table's edits by requests"

    def __init__(self, runs: int, most: int) -> None:
        super().__init__(f"{runs:,} sorted runs are more than the {most:,} that are merged at once")


class OrderUnknown(HFileError):
    """It is not known which of two edits with one key came later. Each is given as its sequence id and write time."""

    advice = (
        "The table was dropped, truncated or restored between the two, the clocks of the source's servers differ, or two clients "
        "wrote them at one moment: the table's edits have to be sent by RPC, which keeps the order of the WALs"
    )

    def __init__(self, row: bytes, family: bytes, qualifier: bytes, one: tuple[int, int], other: tuple[int, int]) -> None:
        edits = " and ".join(f"sequence id {number} written at {time} ms" for number, time in (one, other))
        super().__init__(f"row {_shown(row)}, column {_shown(family)}:{_shown(qualifier)}: {edits}")


class BadCells(HFileError):
    """The cells for a file are not sorted, not of one family, or malformed. No file is made of them."""

    retry_helps = True
    advice = "Run again; if it comes back, it is a defect: report it with this message"

    def __init__(self, cell: int, problem: str) -> None:
        super().__init__(f"cell {cell} of an HFile: {problem}")


class BadFamily(HFileError):
    """A family of the peer cluster has a setting that makes it impossible to write its files."""

    def __init__(self, family: str, name: str, value: str, expected: str) -> None:
        super().__init__(
            f"family {family} of the peer cluster: {name} is {value!r}, but {expected} is needed",
            "Correct it at the peer cluster (alter in HBase's shell), and run again",
        )


class UnreadableHFile(WalferryError):
    """A part of an HFile cannot be read: it is of a kind that Walferry does not read, or broken."""


def _shown(name: bytes) -> str:
    return to_binary_text(name[:_SHOWN_BYTES]) + ("…" if len(name) > _SHOWN_BYTES else "")
