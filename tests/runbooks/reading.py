"""Reads what a runbook has people do, from its own markdown.

    ```console
    $ walferry drain SERVER/QUEUE --dry-run    # status 3; again until nothing is left
    Server SERVER would be claimed first.
    …
    ```

A line that begins with `$ ` is a command; one that ends with a backslash goes on in the next line. The comment behind it tells
its exit status, if that is not 0, and whether to repeat it until its output is as shown. The lines below it are among its output,
in this order. Words of PLACEHOLDERS are filled in by the reader: from what is known or chosen, or from an output in which such a
word stands for what is printed there. `…` stands for anything.

    ```hbase
    source> create 'first', {NAME => 'f', REPLICATION_SCOPE => 1}
    ```

Each line of such a block is typed into HBase's shell at one of the clusters. The world of the page does what it says.

Besides, `python -m demo.…` in the text is something to do in the demo at this place, and a comment `<!-- here: … -->` is
something that another world can do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
TUTORIAL = "first-batch"  # a page that is carried out as a runbook is, on clusters of its own
SECTIONS = ("How you notice", "What it is", "What to do", "How you see that it is over", "What not to do")
_FENCE = re.compile(r"^\s*```")
_COMMENT = re.compile(r"\s{2,}#\s(.*)$")
_STATUS = re.compile(r"\bstatus (\d+)\b")
_IN_DEMO = re.compile(r"`(python -m demo\.[\w]+(?: --undo)?)`")
_HERE = re.compile(r"<!-- here: (.+?) -->")


class RunbookError(Exception):
    """A runbook cannot be read, or one of its steps has another effect than it says."""


@dataclass(frozen=True)
class Command:
    """A command of a console block, and its expected output."""

    line: int
    text: str
    output: tuple[str, ...]
    status: int = 0
    again: bool = False


@dataclass(frozen=True)
class Act:
    """Something that happens to the clusters: a fault, or the work of other people."""

    line: int
    text: str


Step = Command | Act


def names() -> list[str]:
    """Return the runbooks' names. The runbook that removes a peer comes last."""
    found = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")
    return sorted(found, key=lambda name: name == "hand-a-peer-back")


def read(name: str) -> list[Step]:
    """Return the steps of a runbook, or of the tutorial, in their order. Raises RunbookError."""
    path = (FOLDER.parent if name == TUTORIAL else FOLDER) / f"{name}.md"
    if not path.is_file():
        raise RunbookError(f"there is no runbook {name!r}; these are there: {', '.join(names())}")
    return list(steps(path.read_text()))


def steps(text: str) -> Iterator[Step]:
    """Yield the steps in the text of a runbook. Raises RunbookError."""
    block: list[tuple[int, str]] | None = None
    kind = ""
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            if block is None:
                block, kind = [], line.strip().removeprefix("```")
            else:
                yield from _READ.get(kind, _not_carried_out)(block)
                block = None
        elif block is not None:
            block.append((number, line))
        else:
            found = [*_IN_DEMO.finditer(line), *_HERE.finditer(line)]
            yield from (Act(number, match[1]) for match in sorted(found, key=re.Match.start))
    if block is not None:
        raise RunbookError("a code block does not end")


def _not_carried_out(block: list[tuple[int, str]]) -> Iterator[Step]:
    yield from ()


def _typed_into_hbase(block: list[tuple[int, str]]) -> Iterator[Act]:
    yield from (Act(number, line.strip()) for number, line in block if line.strip())


def _commands(block: list[tuple[int, str]]) -> Iterator[Command]:
    lines = iter(block)
    head: tuple[int, str] | None = None
    output: list[str] = []
    for number, line in lines:
        text = line.strip()
        if text.startswith("$ "):
            if head is not None:
                yield _command(*head, output)
            while text.endswith("\\"):
                text = text[:-1] + next(lines)[1].strip()
            head, output = (number, text[2:]), []
        elif text and head is None:
            raise RunbookError(f"line {number}: a console block begins with a command: {text}")
        elif text:
            output.append(text)
    if head is not None:
        yield _command(*head, output)


def _command(number: int, text: str, output: list[str]) -> Command:
    comment = _COMMENT.search(text)
    said = comment[1] if comment else ""
    status = _STATUS.search(said)
    shown = text[: comment.start()] if comment else text
    return Command(number, shown, tuple(output), int(status[1]) if status else 0, "again until" in said)


_READ = {"console": _commands, "hbase": _typed_into_hbase}
