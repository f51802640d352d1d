"""Runs a command on the running demo's clusters and Airflow: `python -m demo.run walferry status`, `python -m demo.run bash`."""

from __future__ import annotations

import os
import shutil
import sys

from demo.state import NoDemoError, read_state


def main(command: list[str]) -> int:
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        environment = {**os.environ, **read_state().environment}
    except NoDemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    found = shutil.which(command[0], path=environment["PATH"])
    if found is None:
        print(f"demo: there is no command {command[0]}", file=sys.stderr)
        return 127
    os.execve(found, command, environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
