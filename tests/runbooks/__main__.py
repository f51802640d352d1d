"""`python -m tests.runbooks RUNBOOK…` carries out runbooks of docs/runbooks on real clusters, and prints what happens."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.runbooks.carrying_out import carry_out
from tests.runbooks.first_hour import first_hour
from tests.runbooks.reading import TUTORIAL, RunbookError, names, read
from tests.runbooks.worlds import REGIONS, hbase_1, running_demo


def main(asked: list[str]) -> int:
    if not asked:
        print(f"{__doc__}\nRunbooks: {', '.join(names())}; the tutorial: {TUTORIAL}", file=sys.stderr)
        return 2
    try:
        for name in asked:
            read(name)
        with tempfile.TemporaryDirectory(prefix="walferry-runbooks-", ignore_cleanup_errors=True) as folder:
            _carry_out(asked, Path(folder))
    except RunbookError as error:
        print(f"FAILED {error}", file=sys.stderr)
        return 1
    print("Carried out as written: " + ", ".join(asked))
    return 0


def _carry_out(asked: list[str], folder: Path) -> None:
    on_demo = [name for name in asked if name not in (REGIONS, TUTORIAL)]
    if TUTORIAL in asked:
        with first_hour(folder / "first-hour") as clusters:
            carry_out(TUTORIAL, clusters, _tell)
    if REGIONS in asked:
        with hbase_1(folder / "hbase-1") as cluster:
            carry_out(REGIONS, cluster, _tell)
    if on_demo:
        with running_demo(folder) as demo:
            for name in on_demo:
                carry_out(name, demo, _tell)


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
