"""What a peer has yet to ship, for those steps that would give it up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from walferry.admin.errors import Refused
from walferry.replication.queues.reading import Queue
from walferry.shipping.plan import PeerPlan

_NAMED = 5


def unshipped(plan: PeerPlan) -> Mapping[str, str]:
    """Planned WALs that are not known to be shipped whole, each with the problem of its group, if any."""
    return {wal.name: group.problem or "" for group in plan.groups for wal in group.wals if not wal.finished}


def refuse_odd_queues(queues: Sequence[Queue]) -> None:
    """Raises Refused if a queue has an entry that is not a WAL."""
    problems = [problem for queue in queues for problem in queue.problems]
    if problems:
        raise Refused(
            f"the peer's queues hold entries that are not WALs and would be lost with them: {'; '.join(problems)}",
            "Look at them first",
        )


def listed(wals: Iterable[str], plan: PeerPlan) -> str:
    """How many WALs, the first of them and why they wait: the beginning of a sentence, up to its verb."""
    names, problems = sorted(wals), unshipped(plan)
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    why = next((problems[wal] for wal in names if problems.get(wal)), "")
    noun, verb = ("WAL", "is") if len(names) == 1 else ("WALs", "are")
    return f"{len(names)} {noun} ({shown}{': ' + why if why else ''}) {verb}"
