"""Who runs this process."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """The name of the user that runs this process, or its uid if it has no name, as in a container with an arbitrary uid."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError: from Python 3.13 on
        return f"uid-{os.getuid()}"
