"""Carries out a runbook as it is written."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from tests.runbooks.matching import compare, filled_in
from tests.runbooks.reading import Act, Command, RunbookError, read

COMMAND_SECONDS = 300
AGAIN_SECONDS = 300
PAUSE_SECONDS = 2
REPORTED_LINES = 20
CHOSEN = {"NEW": "demo2", "HOST": "localhost"}  # values that a reader knows or chooses

Tell = Callable[[str], None]


class World(Protocol):
    """Real clusters, and perhaps Airflow."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that commands have in addition to ours."""

    def act(self, what: str) -> None:
        """Make an event happen to the clusters. Raises RunbookError."""

    def check(self) -> None:
        """Check, without Walferry, that the fault is over. Raises RunbookError."""


def carry_out(name: str, world: World, tell: Tell) -> None:
    """Do all steps of a runbook, and check that the fault is over. Raises RunbookError."""
    known = dict(CHOSEN)
    for step in read(name):
        tell(f"{name}.md:{step.line}: {'$ ' if isinstance(step, Command) else ''}{step.text}")
        try:
            if isinstance(step, Act):
                world.act(step.text)
            else:
                known = _do(step, world, known, tell)
        except RunbookError as error:
            raise RunbookError(f"{name}.md:{step.line}: {step.text}: {error}") from None
    world.check()


def run(command: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command in a shell. Returns its exit status and its output."""
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True, timeout=COMMAND_SECONDS, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def _do(step: Command, world: World, known: dict[str, str], tell: Tell) -> dict[str, str]:
    text = filled_in(step.text, known)
    give_up = time.monotonic() + (AGAIN_SECONDS if step.again else 0)
    while True:
        status, printed = run(text, world.environment)
        try:
            if status != step.status:
                raise RunbookError(f"the exit status is {status}, not {step.status}:\n{printed}")
            found = compare(step.output, printed, known)
        except RunbookError:
            if time.monotonic() > give_up:
                raise
            time.sleep(PAUSE_SECONDS)
            continue
        lines = printed.splitlines()
        tell("\n".join(f"    {line}" for line in [*lines[:REPORTED_LINES], *(["…"] if len(lines) > REPORTED_LINES else [])]))
        return found
