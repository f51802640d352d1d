"""Says how far the tasks of a load are."""

from __future__ import annotations

import time

from walferry.base.jobs import Stages, Tell

EVERY_SECONDS = 10.0


class LoadProgress:
    """Tells `tell` what has changed since the last time, every few seconds at most."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._told = ""
        self._next = 0.0

    def __call__(self, stages: Stages) -> None:
        """Take how far the stages are: the first one reads WALs, the second one loads regions."""
        text = shown(stages)
        if text != self._told and time.monotonic() >= self._next:
            self._told, self._next = text, time.monotonic() + EVERY_SECONDS
            self._tell(text)


def shown(stages: Stages) -> str:
    """How far a load is, in words; empty if there is nothing to tell."""
    if not any(tasks for _, tasks in stages):
        return ""
    (read, parts), *after = stages
    text = f"read {read:,} of {parts:,} parts of the WALs"
    if read == parts and after:
        loaded, partitions = after[0]
        text += f", loaded {loaded:,} of {partitions:,} partitions of the regions"
    return text
