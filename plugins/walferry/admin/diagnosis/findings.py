"""A finding: what was looked at, how it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from kazoo.exceptions import KazooException

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.base.zk.errors import known

MAX_TEXT_CHARS = 1000


class FindingState(StrEnum):
    """How something is."""

    WELL = "well"
    NOTE = "note"  # as somebody wants it, or of no harm yet
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis."""

    what: str
    state: FindingState
    text: str
    advice: str = ""

    @property
    def line(self) -> str:
        """As a log has it: what was looked at, how it is, and what to do."""
        return f"{self.what}: {self.text}. {self.advice}" if self.advice else f"{self.what}: {self.text}"

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {**asdict(self), "state": str(self.state)}


def well(what: str, text: str) -> Finding:
    """It works."""
    return Finding(what, FindingState.WELL, one_line(text, MAX_TEXT_CHARS))


def note(what: str, text: str, advice: str = "") -> Finding:
    """It is worth a look."""
    return Finding(what, FindingState.NOTE, one_line(text, MAX_TEXT_CHARS), advice)


def wrong(what: str, text: object, advice: str = "") -> Finding:
    """It does not work."""
    return Finding(what, FindingState.WRONG, one_line(str(text), MAX_TEXT_CHARS), advice)


def looked(what: str, look: Callable[[], str]) -> Finding:
    """What `look` says, or the error that it raises, ZooKeeper's too. An error says by itself what to do."""
    try:
        return well(what, look())
    except (WalferryError, KazooException) as error:
        return wrong(what, known(error))
