"""Finds out which user runs this process."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Return the name of this process's user, or the uid if it has no name, as in a container with an arbitrary uid."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError: from Python 3.13 on
        return f"uid-{os.getuid()}"
