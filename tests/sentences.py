"""`python -m tests.sentences [SEED] [NUMBER]` draws sentences of this repo's prose, to be read by someone else than their author.

From docstrings, comments, the documentation and the titles of the last commits. A sentence that has
to be read twice is to be written anew, and so are its like.
"""

from __future__ import annotations

import ast
import io
import random
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
NUMBER = 60
COMMITS = 200
MIN_WORDS = 6  # less is a heading or a remark
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"])")


def main(arguments: list[str]) -> int:
    """Print the sentences, each below its place."""
    seed = int(arguments[0]) if arguments else random.randrange(1000)
    number = int(arguments[1]) if len(arguments) > 1 else NUMBER
    print(f"seed {seed}")
    for place, sentence in random.Random(seed).sample(sorted(set(sentences())), number):
        print(f"\n{place}\n    {sentence}")
    return 0


def sentences() -> Iterator[tuple[str, str]]:
    """Yield all sentences, each with its place."""
    for path in _tracked("*.py"):
        if not path.name.endswith("_pb2.py"):
            text = (REPO / path).read_text()
            for line, prose in [*_docstrings(text), *_comments(text)]:
                yield from _split(f"{path}:{line}", prose)
    for path in _tracked("*.md"):
        for number, lines in _paragraphs(enumerate((REPO / path).read_text().splitlines(), 1)):
            yield from _split(f"{path}:{number}", " ".join(line.strip().removeprefix("- ") for line in lines))
    titles = subprocess.run(["git", "log", f"-{COMMITS}", "--format=%h %s"], cwd=REPO, capture_output=True, text=True, check=True)
    for line in titles.stdout.splitlines():
        commit, _, title = line.partition(" ")
        yield f"commit {commit}", title


def _tracked(pattern: str) -> list[Path]:
    found = subprocess.run(["git", "ls-files", pattern], cwd=REPO, capture_output=True, text=True, check=True).stdout
    return [Path(line) for line in found.splitlines()]


def _paragraphs(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the prose of a Markdown page, without tables, headings and code."""
    found: list[str] = []
    first = 0
    for number, line in [*lines, (0, "")]:
        begins = line.startswith("- ")
        if found and (begins or not (line[:1].isalpha() or line.startswith("  "))):
            yield first, found
            found = []
        if found or begins or line[:1].isalpha():
            first = first if found else number
            found.append(line)


def _docstrings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                if not paragraph.startswith(" ") and "    " not in paragraph:  # this is a table
                    yield getattr(node, "lineno", 1), " ".join(paragraph.split())


def _comments(text: str) -> Iterator[tuple[int, str]]:
    found: list[str] = []  # the lines of one comment
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, alone = token.start[0], token.line.lstrip().startswith("#")
            if found and not (alone and last == line - 1):
                yield first, " ".join(found)
                found = []
            first, last = first if found else line, line if alone else 0
            found.append(token.string.lstrip("# "))
    if found:
        yield first, " ".join(found)


def _split(place: str, prose: str) -> Iterator[tuple[str, str]]:
    for sentence in _END.split(prose.strip()):
        if len(sentence.split()) >= MIN_WORDS:
            yield place, sentence


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
