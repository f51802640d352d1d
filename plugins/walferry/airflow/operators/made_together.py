"""Lets the tasks of peers whose files are made in one job (hfiles.with) find each other within a run of replicate_peer.

The task of the peer that makes the files says, by an XCom, which peers its job takes along. The tasks of these wait for its end,
those of others go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRescheduleException

from walferry.airflow.states import ENDED, state_of
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.values import Planned, run_of

ALONG = "made_along"  # the XCom with the peers that a job takes along
SHIPPED_BY = "shipped_by"  # the XCom that says in the report which peer's job has made the files
LOOK_SECONDS = 20  # between two looks at another peer's task
PLAN_SECONDS = 15.0  # for the other peers' plans, which are made at the same time
CONFIGURED = "configured"

log = logging.getLogger(__name__)


def sink_of(params: Mapping[str, Any]) -> SinkKind | None:
    """Return the sink that a run asks for; None if each peer's own is meant."""
    return None if params["sink"] == CONFIGURED else SinkKind(params["sink"])


@dataclass(frozen=True)
class Together:
    """A peer's task `ship`, among those of the other peers of its run."""

    context: Context
    source: SourceCluster
    planned: Planned

    @property
    def _ti(self) -> Any:
        return self.context["ti"]

    @property
    def _branches(self) -> list[str]:
        """The run's peers, by the map indexes of their tasks."""
        return list(self._ti.xcom_pull(task_ids="peers") or ())

    def after_lead(self) -> tuple[Planned, set[str]]:
        """Return the plan, and the WAL groups that another peer's job has shipped for this peer, once that job has ended.

        As long as it goes on, this raises AirflowRescheduleException: waiting holds no worker. If no job takes this peer along,
        it returns the plan as it is.
        """
        from walferry.runs.steps import batch

        peer = self.planned.peer
        lead, nothing = batch.lead_of(self.source, peer, sink_of(self.context["params"])), set[str]()
        if lead is None or lead not in (branches := self._branches):
            return self.planned, nothing
        index = branches.index(lead)
        if state_of(self._ti, self._ti.task_id, index) not in ENDED:
            taken = self._ti.xcom_pull(task_ids=self._ti.task_id, key=ALONG, map_indexes=index)
            if taken is not None and peer not in taken:
                return self.planned, nothing
            shipped = batch.shipped_whole(self.source, self.planned)
            if len(shipped) < self.planned.groups:
                log.info("Waiting for the job of peer %s, which may make the files of peer %s, too.", lead, peer)
                again = datetime.now(UTC) + timedelta(seconds=LOOK_SECONDS)
                raise AirflowRescheduleException(again)  # type: ignore[no-untyped-call]
            return self._by(lead, self.planned, shipped)
        planned = batch.after_lead(self.source, self.planned, run_of(self._ti), lead)
        return self._by(lead, planned, batch.shipped_whole(self.source, planned))

    def _by(self, lead: str, planned: Planned, shipped: set[str]) -> tuple[Planned, set[str]]:
        """Say in the report which peer's job has shipped some of this peer's groups."""
        if shipped:
            self._ti.xcom_push(SHIPPED_BY, lead)
        return planned, shipped

    @contextmanager
    def holding_others(self) -> Iterator[dict[str, str]]:
        """Hold the locks of the run's peers that this peer's job takes along, and yield the ids of their runs by their ids."""
        from walferry.runs.steps import batch

        params = self.context["params"]
        named = set(batch.joining(self.source, self.planned.peer, sink_of(params)))
        others = {index: peer for index, peer in enumerate(self._branches) if peer in named} if named else {}
        if not others:
            yield {}
            return
        plans = self._plans(others)
        with batch.holding_with(self.source, self.planned.peer, run_of(self._ti), plans) as held:
            self._ti.xcom_push(ALONG, held)
            yield {peer: plans[peer].run_id for peer in held}

    def _plans(self, others: Mapping[int, str]) -> dict[str, Planned]:
        """Return the other peers' plans that leave something to this run."""
        task_id = f"{self._ti.task_id.rpartition('.')[0]}.plan"
        give_up, found = time.monotonic() + PLAN_SECONDS, dict[str, Planned]()
        for index, peer in others.items():
            while state_of(self._ti, task_id, index) not in ENDED and time.monotonic() < give_up:
                time.sleep(1)
            xcom = self._ti.xcom_pull(task_ids=task_id, map_indexes=index)
            planned = Planned.from_xcom(xcom) if xcom else None
            if planned is not None and planned.groups and not planned.left_to and not planned.held:
                found[peer] = planned
        return found
