"""What a Spark job's script prints, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line

MAX_LINE_CHARS = 20_000


def exit_code_of(run: Callable[[], int], failed: str) -> int:
    """Run a job and return its exit code. A WalferryError ends it with one line: what has failed, and why."""
    try:
        return run()
    except WalferryError as error:
        tell(f"{failed}: {error}")
        return 1


def say(text: str) -> None:
    """Print a line. Names and texts of clusters in it cannot end it, nor control a terminal."""
    print(one_line(text, MAX_LINE_CHARS), flush=True)


def tell(text: str) -> None:
    """Print what has failed as `say` does, to stderr."""
    print(one_line(text, MAX_LINE_CHARS), file=sys.stderr)
