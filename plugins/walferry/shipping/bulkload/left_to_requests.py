"""What a load leaves to be shipped by requests. Small batches have this too, so it imports nothing that takes long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walferry.engine.summary import GroupSummary
from walferry.shipping.group_job import GroupJob


@dataclass(frozen=True)
class Left:
    """What is done of a backlog, and the groups to ship by requests."""

    done: Sequence[GroupSummary]
    jobs: Sequence[GroupJob]
