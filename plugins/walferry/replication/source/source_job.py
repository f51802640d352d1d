"""The fields that all jobs share: the source, the peer and the run, and their form as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import ClassVar, Self, get_type_hints

from walferry.base.records import NotARecord, converted, parsed_object, text_of
from walferry.replication.source.cluster import SourceCluster


@dataclass(frozen=True, kw_only=True)
class SourceJob:
    """One job of a run for a peer of a source. A retry of the run has the same `run_id`."""

    kind: ClassVar[str]
    nothing_done: ClassVar[str]

    source: SourceCluster
    peer_id: str
    run_id: str

    def __post_init__(self) -> None:
        deadline = getattr(self, "deadline", None)
        if deadline is not None and not deadline > 0:
            raise NotARecord(f"its deadline is {deadline:g}; it must be more than 0 seconds")

    @property
    def title(self) -> str:
        """The title in Spark's UI."""
        return f"walferry {self.kind} peer {self.peer_id}"

    @property
    def identity(self) -> tuple[str, ...]:
        """The values that all tries of the job share, and no other job does."""
        source = replace(self.source, peer_clusters={}, peer_cluster_problems={})  # a retry may go to other peer clusters, too
        return (self.kind, source.to_json(), self.peer_id, self.run_id)

    def begun_later(self, seconds: float) -> Self:
        """Return the job for a start `seconds` later: its deadline, if any, is nearer, but at least a second away."""
        deadline = getattr(self, "deadline", None)
        return self if deadline is None else replace(self, deadline=max(1.0, deadline - seconds))  # type: ignore[call-arg]

    def to_json(self) -> str:
        """Write the job for `from_json`. It contains names of files, no secrets: spark-submit's command line shows it."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "source"}
        values = {name: asdict(value) if is_dataclass(value) else value for name, value in own.items()}  # type: ignore[arg-type]
        return text_of(values | {"source": json.loads(self.source.to_json())})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the job that `to_json` wrote. Raises NotARecord, SourceError."""
        values, hints = parsed_object(text), get_type_hints(cls)
        known = {each.name: hints[each.name] for each in fields(cls)}
        if odd := values.keys() ^ known.keys():
            raise NotARecord(f"it has, or lacks, {', '.join(sorted(odd))}")
        source = SourceCluster.from_json(json.dumps(values["source"]))
        del known["source"]
        return cls(source=source, **{name: converted(hint, values[name], name) for name, hint in known.items()})
