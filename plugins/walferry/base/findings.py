"""Defines findings: the thing that was checked, its state, and what to do about it.

Checks, statuses and surveys of oldWALs and of regions return findings; commands, DAGs and pages show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from walferry.base.texts import one_line
from walferry.base.zk.errors import known

MAX_TEXT_CHARS = 1000
MAX_ABOUT_CHARS = 250
MAX_LINE_CHARS = 1200


class Severity(StrEnum):
    """The state of a checked thing."""

    WELL = "well"
    NOTE = "note"  # as a user wants it, or harmless so far
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """One finding. `kind` and `about` name its subject; the same pair means the same finding in the next check."""

    kind: str  # the thing that was checked, or the problem
    severity: Severity
    text: str
    advice: str = ""
    about: str = ""  # the owner of the thing, such as "peer p"; empty means the source

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", one_line(self.text, MAX_TEXT_CHARS))
        object.__setattr__(self, "about", one_line(self.about, MAX_ABOUT_CHARS))

    @property
    def what(self) -> str:
        """The checked thing and its owner."""
        return f"{self.about}: {self.kind}" if self.about else self.kind

    @property
    def sentence(self) -> str:
        """The state, and what to do."""
        return f"{self.text}. {self.advice}" if self.advice else self.text

    @property
    def line(self) -> str:
        """The finding as a line of a log."""
        return one_line(f"{self.what}: {self.sentence}", MAX_LINE_CHARS)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as in `--json` and XComs."""
        return {**asdict(self), "severity": str(self.severity)}


def well(kind: str, text: str, about: str = "") -> Finding:
    """Return a finding that the thing works."""
    return Finding(kind, Severity.WELL, text, "", about)


def note(kind: str, text: str, advice: str = "", about: str = "") -> Finding:
    """Return a finding that is worth a look."""
    return Finding(kind, Severity.NOTE, text, advice, about)


def wrong(kind: str, text: object, advice: str = "", about: str = "") -> Finding:
    """Return a finding that the thing does not work."""
    return Finding(kind, Severity.WRONG, str(text), advice, about)


def checked(kind: str, check: Callable[[], str], about: str = "") -> Finding:
    """Return the text of `check`, or its error, ZooKeeper's too, as a finding. An error contains its own advice."""
    try:
        return well(kind, check(), about)
    except Exception as error:
        return wrong(kind, known(error), about=about)


def found_by(kind: str, check: Callable[[], Iterable[Finding]], about: str = "") -> Iterator[Finding]:
    """Yield the findings of `check`, and at last the error that it raises, ZooKeeper's too."""
    try:
        yield from check()
    except Exception as error:
        yield wrong(kind, known(error), about=about)


def once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out problems with the reason of an earlier one: one of the two texts is a part of the other.

    Problems of the same kind are all kept, because two clusters may have the same trouble.
    """
    reported: list[Finding] = []
    for finding in findings:
        if finding.severity is Severity.WRONG:
            if any(finding.kind != each.kind and (finding.text in each.text or each.text in finding.text) for each in reported):
                continue
            reported.append(finding)
        yield finding
