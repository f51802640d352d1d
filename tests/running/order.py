"""In which order tests run, and which of them a run may leave out when its time is over.

On a developer's machine: folder by folder, those that need little first, so that a run that is ended has asked most questions.

In CI, after `make test`, tests take turns. A turn is one commit:

    1. files that stand on what the change touches, the nearest by imports first, as many as fit into TOUCHED_SECONDS
    2. the turn's twelfth of all files: `SHARD=<k>/12 make test-all` runs the same
    3. the other files that the change touches, then the other twelfths as they follow

The first two are in each run. So in twelve turns that follow each other each file was run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from tests.running.durations import ROOT, file_of, seconds_of
from tests.running.import_graph import distances, import_graph
from tests.running.shards import deal

TURN = "TESTS_TURN"  # the variable with the number of the turn, which grows by one from commit to commit
SINCE = "TESTS_SINCE"  # the variable with the commit since which files count as changed
TURNS = 12
TOUCHED_SECONDS = 900.0  # of all processes together: the twelfth of the turn has to begin within the same hour
FOLDERS = ("unit", "zk", "embedded", "spark", "cluster", "airflow", "ui", "demo")


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests as this run takes them: file by file, and as they were within each."""
    ordered = sorted(items, key=lambda item: folder(item.nodeid))
    turn = turn_of_run()
    if turn is None:
        return ordered
    files = list(dict.fromkeys(file_of(item.nodeid) for item in ordered))
    place = {file: number for number, file in enumerate(files_in_turn(files, turn, touched())[1])}
    return sorted(ordered, key=lambda item: place[file_of(item.nodeid)])


def files_in_turn(
    files: Sequence[str], turn: int, away: Mapping[str, int], known: Mapping[str, float] | None = None
) -> tuple[set[str], list[str]]:
    """Return the files that a run of this turn may not leave out, and all files in its order.

    `away` says how many imports a file is away from what was changed.
    """
    seconds = seconds_of(sorted(files), known)
    near = sorted((file for file in files if file in away), key=lambda file: (away[file], seconds[file], file))
    fitting, spent = [], 0.0
    for file in near:
        spent += seconds[file]
        if spent > TOUCHED_SECONDS:
            break
        fitting.append(file)
    twelfths = deal(seconds, TURNS)
    now, *later = [twelfths[(turn + number) % TURNS] for number in range(TURNS)]
    order = [*fitting, *now, *near, *(file for twelfth in later for file in twelfth)]
    return {*fitting, *now}, list(dict.fromkeys(order))


def turn_of_run() -> int | None:
    """Return the number of this run's turn; None if the tests do not take turns."""
    turn = os.environ.get(TURN, "")
    return int(turn) if turn else None


@cache
def touched() -> dict[str, int]:
    """Return how many imports each file is away from what was changed since the commit that SINCE names."""
    since = os.environ.get(SINCE, "")
    if not since:
        return {}
    command = ["git", "diff", "--name-only", "-z", "--end-of-options", since, "HEAD"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return distances(import_graph(ROOT), [name for name in names.split("\0") if name])


def folder(nodeid: str) -> int:
    """Return where the folder of a test stands in `FOLDERS`; any other folder comes last."""
    parts = nodeid.split("/")
    return FOLDERS.index(parts[1]) if len(parts) > 2 and parts[1] in FOLDERS else len(FOLDERS)
