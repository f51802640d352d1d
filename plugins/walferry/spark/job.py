"""How a Spark job's script ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

from walferry.errors import WalferryError


def exit_code_of(run: Callable[[], int], failed: str) -> int:
    """Run a job and return its exit code. A WalferryError ends it with one line: what has failed, and why."""
    try:
        return run()
    except WalferryError as error:
        print(f"{failed}: {error}", file=sys.stderr)
        return 1
