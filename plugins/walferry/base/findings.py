"""A finding: what was looked at, how it is, and what to do about it.

Checks, statuses and surveys of oldWALs and of regions say what is wrong by findings; commands, DAGs and pages show these.
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
    """How something is."""

    WELL = "well"
    NOTE = "note"  # as somebody wants it, or of no harm yet
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What was found. `kind` and `about` say of what; by both it is known again when one looks the next time."""

    kind: str  # what was looked at, or what is wrong
    severity: Severity
    text: str
    advice: str = ""
    about: str = ""  # whose it is, such as "peer p"; the source's if it is empty

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", one_line(self.text, MAX_TEXT_CHARS))
        object.__setattr__(self, "about", one_line(self.about, MAX_ABOUT_CHARS))

    @property
    def what(self) -> str:
        """What was looked at, and whose it is."""
        return f"{self.about}: {self.kind}" if self.about else self.kind

    @property
    def sentence(self) -> str:
        """How it is, and what to do."""
        return f"{self.text}. {self.advice}" if self.advice else self.text

    @property
    def line(self) -> str:
        """As a log has it."""
        return one_line(f"{self.what}: {self.sentence}", MAX_LINE_CHARS)

    def to_json(self) -> dict[str, Any]:
        """As `--json` and XComs have it."""
        return {**asdict(self), "severity": str(self.severity)}


def well(kind: str, text: str, about: str = "") -> Finding:
    """It works."""
    return Finding(kind, Severity.WELL, text, "", about)


def note(kind: str, text: str, advice: str = "", about: str = "") -> Finding:
    """It is worth a look."""
    return Finding(kind, Severity.NOTE, text, advice, about)


def wrong(kind: str, text: object, advice: str = "", about: str = "") -> Finding:
    """It does not work."""
    return Finding(kind, Severity.WRONG, str(text), advice, about)


def checked(kind: str, check: Callable[[], str], about: str = "") -> Finding:
    """What `check` says, or the error that it raises, ZooKeeper's too. An error says by itself what to do."""
    try:
        return well(kind, check(), about)
    except Exception as error:
        return wrong(kind, known(error), about=about)


def found_by(kind: str, check: Callable[[], Iterable[Finding]], about: str = "") -> Iterator[Finding]:
    """What `check` finds, and at last the error that it raises, ZooKeeper's too."""
    try:
        yield from check()
    except Exception as error:
        yield wrong(kind, known(error), about=about)


def once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out what is wrong for a reason that was told before: one of the two texts is a part of the other.

    What is of the same kind is told all the same, because two clusters may have the same trouble.
    """
    told: list[Finding] = []
    for finding in findings:
        if finding.severity is Severity.WRONG:
            if any(finding.kind != each.kind and (finding.text in each.text or each.text in finding.text) for each in told):
                continue
            told.append(finding)
        yield finding
